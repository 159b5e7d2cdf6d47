/* Which layers of a UNet are quantized, and why: every layer with what was measured and decided,
 * kept as JSON so that thresholds can be moved without measuring again.
 *
 * Compute density is FLOP per byte of a layer at the shape of the calibration, counting each input,
 * weight and output element once at two bytes: 2 M K N / (2 (M K + K N + M N)) for a linear of M
 * rows, T S / (T + S) for an attention of T queries on S keys. Layers below a density gain nothing
 * from integers and stay as they are.
 *
 * A plan is changed by one thread, then only read. */
#ifndef GRAFT_QUANT_PLAN_H
#define GRAFT_QUANT_PLAN_H
#include "base/error.h"
#include "base/hash.h"
#include "base/str.h"
#include "engine/graph/graph.h"
#include "engine/models/net.h"
#include "engine/quant/layers.h"
#include "engine/weights/weights.h"

#define GRAFT_QUANT_LAYERS 2048 /* no UNet has more */

typedef enum graft_quant_reason {
    GRAFT_QUANT_CHOSEN = 0,
    GRAFT_QUANT_KEPT = 1,      /* first and last convolution, time and size embeddings */
    GRAFT_QUANT_KIND = 2,      /* its kind is turned off */
    GRAFT_QUANT_DENSITY = 3,   /* below the density threshold */
    GRAFT_QUANT_ERROR = 4,     /* above the threshold of its kind */
    GRAFT_QUANT_UNKNOWN = 5,   /* its error was not measured */
    GRAFT_QUANT_BACKED_OFF = 6 /* went back so that the joint error held */
} graft_quant_reason;

/* What 8 bits are. */
typedef int32_t graft_quant_format; /* numbers are stable: they go into keys */
enum { GRAFT_FORMAT_INT = 0, GRAFT_FORMAT_FP8 = 1 };
/* As users name it: "int", "fp8_e4m3fn". read: false for other names. */
const char *graft_quant_format_name(graft_quant_format f);
bool graft_quant_format_read(const char *name, graft_quant_format *out);
/* What a layer is. Attention stands for its two products, which have no weights. */
typedef enum graft_layer_kind {
    GRAFT_LAYER_CONV = 0,
    GRAFT_LAYER_LINEAR = 1,
    GRAFT_LAYER_ATTENTION = 2,
    GRAFT_LAYER_KINDS
} graft_layer_kind;
/* "conv", "linear", "attention". */
const char *graft_layer_kind_name(graft_layer_kind kind);
/* How many numbers a layer's shape has. */
int graft_layer_kind_rank(graft_layer_kind kind);
/* Whether layers of the kind can be quantized to this: attention to integers of 8 bits alone. */
bool graft_layer_kind_takes(graft_layer_kind kind, int32_t bits, graft_quant_format f);
/* For people: "8 bits", "4 bits", "fp8_e4m3fn". */
const char *graft_quant_levels_name(int32_t bits, graft_quant_format f);
/* What operators of such layers have. */
graft_quant graft_quant_of(int32_t bits, graft_quant_format f);

typedef struct graft_quant_layer {
    char name[128]; /* see layers.h */
    graft_layer_kind kind;
    /* Of the weight; a linear has two. Attention: heads, elements of a head, queries, keys. */
    int64_t dim[4];
    double flops, density;             /* at the plan's shape */
    double mse;                        /* estimated, of the latent; NAN: not measured */
    double seconds, seconds_quantized; /* of one run, either way; NAN: not measured */
    graft_quant_reason reason;
} graft_quant_layer;

/* Of each kind, by graft_layer_kind. */
typedef struct graft_quant_limits {
    bool on[GRAFT_LAYER_KINDS];
    double mse[GRAFT_LAYER_KINDS]; /* 0: nothing; 1: everything, measured or not */
    double density;
} graft_quant_limits;

typedef struct graft_quant_plan {
    graft_quant_layer *layer; /* in the order of the UNet */
    size_t n;
    int32_t bits;                         /* 4 or 8 */
    graft_quant_format format;            /* 4 bits are integers */
    int64_t batch, height, width, tokens; /* the latent's shape */
    graft_hash arch, weights;
    double joint_mse, joint_psnr, joint_ssim; /* of all chosen layers; NAN: not measured */
    /* How far sampled joint errors were above the sum of their layers' estimates: the largest
     * ratio, at least 1, and the largest difference, at least 0; INFINITY when only the ratio is
     * known. See graft_quant_plan_predict(). */
    double understated, excess;
    double other_flops; /* of one run, outside of the layers */
    /* One run of the UNet: as it is, operator by operator, which is what the layers' seconds are
     * parts of; and in a sampling, as it is and with the chosen layers. NAN: not measured. */
    double seconds, sampled, sampled_quantized;
    graft_quant_limits limits; /* of the last selection */
} graft_quant_plan;

/* All layers of the architecture at this latent shape, none chosen, nothing measured. */
graft_status graft_quant_plan_create(const graft_net_arch *a, const graft_net_shape *shape,
                                     graft_quant_plan **out, graft_err *e);
/* The same for names alone, at some shape: bit i of a choice is its layer i. */
graft_status graft_quant_layers(const graft_net_arch *a, graft_quant_plan **out, graft_err *e);
void graft_quant_plan_destroy(graft_quant_plan *p);
/* Gives a plan that knew no attention, as of earlier releases, the architecture's attention layers
 * at the plan's shape, not measured; changes no other. GRAFT_E_ARG when its other layers are not
 * those of the architecture. */
graft_status graft_quant_plan_complete(graft_quant_plan *p, const graft_net_arch *a, graft_err *e);
/* Decides for every layer anew; a joint result that no longer holds is dropped. Returns how many
 * were chosen. */
size_t graft_quant_plan_select(graft_quant_plan *p, const graft_quant_limits *limits);
/* Makes these the plan's limits. A choice that was found for the same limits stays as it is, where
 * they only differ in those of attention and none was measured; else all is decided anew, and the
 * worst of the chosen layers are given back as far as the limit on all together asks for. */
void graft_quant_plan_adopt(graft_quant_plan *p, const graft_quant_limits *limits);
/* What the estimates of the chosen layers add up to. */
double graft_quant_plan_estimate(const graft_quant_plan *p);
/* The joint error of a choice whose estimates add up to `sum`, by what was sampled of others. Where
 * errors correlate, the joint error is so many times the sum. Where single values of a few layers
 * already change how all that follows is rounded, it is so much more than the sum, and a ratio
 * found on a few layers says nothing of many. So the smaller of the two. */
double graft_quant_plan_predict(const graft_quant_plan *p, double sum);
/* The sum for which graft_quant_plan_predict() gives `limit`. */
double graft_quant_plan_budget(const graft_quant_plan *p, double limit);
/* Whether other limits can choose by measured errors; not so when the calibration had no layer that
 * it could have chosen. */
bool graft_quant_plan_measured(const graft_quant_plan *p);
/* Gives the worst of the chosen layers back until the estimates of the others add up to at most
 * `budget`. Returns how many went. */
size_t graft_quant_plan_back_off(graft_quant_plan *p, double budget);
size_t graft_quant_plan_count(const graft_quant_plan *p, graft_quant_reason reason);
/* How much faster the chosen layers should make one run; 1 when nothing was timed. */
double graft_quant_plan_gain(const graft_quant_plan *p);
/* Whether the times are no use: prediction and measurement are too far apart. */
bool graft_quant_plan_disturbed(const graft_quant_plan *p);
bool graft_quant_limits_equal(const graft_quant_limits *a, const graft_quant_limits *b);
/* What all layers together may cause: the larger threshold of convolutions and linear layers, as
 * far as they are turned on, and that of attention where they have none. So attention does not
 * loosen what was set for all others. */
double graft_quant_limits_joint(const graft_quant_limits *k);
/* Names the stored weights of all layers; patches do not count. */
graft_status graft_quant_weights_hash(const graft_net_arch *a, graft_weights *w, graft_hash *out,
                                      graft_err *e);
/* Whether the layer of this name is never quantized: the first, the last and the embeddings. */
bool graft_quant_always_kept(const char *name);
/* Index of the layer with this name; p->n when there is none. */
size_t graft_quant_plan_find(const graft_quant_plan *p, const char *name);

/* JSON. read: GRAFT_E_FORMAT for damaged text, other versions and values that no plan has; `what`
 * names the source in messages. */
graft_status graft_quant_plan_write(const graft_quant_plan *p, graft_str *out, graft_err *e);
graft_status graft_quant_plan_read(const char *text, size_t n, const char *what,
                                   graft_quant_plan **out, graft_err *e);

/* The choice alone, as plain data for keys: bit i stands for layer i. */
typedef struct graft_quant_choice {
    int32_t bits; /* 0: nothing is quantized */
    graft_quant_format format;
    uint8_t set[GRAFT_QUANT_LAYERS / 8];
    /* Four bits a layer: k where its rows are turned in groups of 4^k, 0 where they are not. */
    uint8_t turned[GRAFT_QUANT_LAYERS / 2];
} graft_quant_choice;
/* GRAFT_E_ARG when the plan's layers are not those of the architecture. */
graft_status graft_quant_choice_make(const graft_quant_plan *p, const graft_net_arch *a,
                                     graft_quant_choice *out, graft_err *e);
/* The layers that are quantized in their file, attention by what its metadata name; none in most.
 * Of files that other programs quantized those in integers.
 * GRAFT_E_FORMAT for names of attention that the architecture does not have, or that does not go
 * with the file's weights. */
graft_status graft_quant_choice_of_weights(const graft_net_arch *a, const graft_weights *w,
                                           graft_quant_choice *out, graft_err *e);
/* Marks the chosen layers in a graph of the architecture, of any variant, before passes run. */
graft_status graft_quant_choice_apply(const graft_quant_choice *c, const graft_net_arch *a,
                                      graft_graph *g, graft_err *e);
#endif
