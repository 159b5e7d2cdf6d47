/* Which layers of a UNet are quantized, and why: every layer with what was measured and decided,
 * kept as JSON so that thresholds can be moved without measuring again.
 *
 * Compute density is FLOP per byte of a layer at the shape of the calibration, counting each input,
 * weight and output element once at two bytes: 2 M K N / (2 (M K + K N + M N)) for a linear of M
 * rows. Layers below a density gain nothing from integers and stay as they are.
 *
 * A plan is changed by one thread, then only read. */
#ifndef GRAFT_QUANT_PLAN_H
#define GRAFT_QUANT_PLAN_H
#include "base/error.h"
#include "base/hash.h"
#include "base/str.h"
#include "engine/graph/graph.h"
#include "engine/models/unet.h"

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

typedef struct graft_quant_layer {
    char name[128]; /* of the weight, without ".weight" */
    bool conv;
    int64_t dim[4];        /* of the weight; a linear has two */
    double flops, density; /* at the plan's shape */
    double mse;            /* estimated, of the latent; NAN: not measured */
    graft_quant_reason reason;
} graft_quant_layer;

typedef struct graft_quant_plan {
    graft_quant_layer *layer; /* in the order of the UNet */
    size_t n;
    int32_t bits;                         /* 4 or 8 */
    int64_t batch, height, width, tokens; /* the latent's shape */
    graft_hash arch, weights;
    double joint_mse, joint_psnr, joint_ssim; /* of all chosen layers; NAN: not measured */
} graft_quant_plan;

typedef struct graft_quant_limits {
    bool conv, linear;
    double conv_mse, linear_mse; /* 0: nothing; 1: everything, measured or not */
    double density;
} graft_quant_limits;

/* All layers of the architecture at this latent shape, none chosen, nothing measured. */
graft_status graft_quant_plan_create(const graft_unet_arch *a, const graft_unet_shape *shape,
                                     graft_quant_plan **out, graft_err *e);
void graft_quant_plan_destroy(graft_quant_plan *p);
/* Decides for every layer anew. Returns how many were chosen. */
size_t graft_quant_plan_select(graft_quant_plan *p, const graft_quant_limits *limits);

/* JSON. read: GRAFT_E_FORMAT for damaged text, other versions and values that no plan has; `what`
 * names the source in messages. */
graft_status graft_quant_plan_write(const graft_quant_plan *p, graft_str *out, graft_err *e);
graft_status graft_quant_plan_read(const char *text, size_t n, const char *what,
                                   graft_quant_plan **out, graft_err *e);

/* The choice alone, as plain data for keys: bit i stands for layer i. */
typedef struct graft_quant_choice {
    int32_t bits; /* 0: nothing is quantized */
    int32_t zero;
    uint8_t set[GRAFT_QUANT_LAYERS / 8];
} graft_quant_choice;
/* GRAFT_E_ARG when the plan's layers are not those of the architecture. */
graft_status graft_quant_choice_make(const graft_quant_plan *p, const graft_unet_arch *a,
                                     graft_quant_choice *out, graft_err *e);
/* Marks the chosen layers in a graph of the architecture, of any variant, before passes run. */
graft_status graft_quant_choice_apply(const graft_quant_choice *c, const graft_unet_arch *a,
                                      graft_graph *g, graft_err *e);
#endif
