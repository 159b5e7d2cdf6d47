/* The guided denoiser from the inside, for its two ways: in the host's memory (denoise.c) and on a
 * device (resident.c); and for what compiles ahead (prepare.c). */
#ifndef GRAFT_DENOISE_GUIDED_H
#define GRAFT_DENOISE_GUIDED_H
#include "engine/denoise/answers.h"
#include "engine/denoise/attending.h"
#include "engine/denoise/batches.h"
#include "engine/denoise/blurred.h"
#include "engine/denoise/cfg_changes.h"
#include "engine/denoise/controls.h"
#include "engine/denoise/denoise.h"
#include "engine/denoise/features.h"
#include "engine/denoise/known.h"
#include "engine/denoise/series.h"
#include "kernels/guidance.h"

#define MAX_BINDINGS 16 /* different variants and shapes within one run */

typedef struct bound_shape {
    graft_unet_use use;
    graft_binding *binding;
} bound_shape;

struct graft_guided {
    graft_guided_config c;
    graft_regions regions;
    bound_shape bound[MAX_BINDINGS];
    size_t n_bound;
    int64_t arena; /* the most bytes of activations that a network of the run has */
    graft_series series;
    active *active;
    size_t n_active;
    int64_t n, per;                       /* values of the latent in all, and per picture */
    double cfg;                           /* of the run; c.cfg is the present call's */
    size_t step;                          /* of the sampler */
    bool shrinks, perturbs;               /* the present call */
    bool again;                           /* it is at the second run of self-attention guidance */
    uint32_t sees;                        /* likewise: graft_model_sees_at() */
    float *x, *scaled, *sum[GRAFT_SIDES]; /* (n) each; sum: NULL for a side that is not there */
    float *perturbed; /* (n), the positive prompts' perturbed predictions; or NULL */
    float *batch_x, *batch_out, *timesteps, *context, *y;
    graft_known known;
    float *batch_latent;      /* batch_x without what is known; batch_x itself where nothing is */
    graft_features *features; /* NULL without DeepCache */
    graft_dtype feature_dtype;
    uint8_t *feature;     /* of one batch */
    size_t feature_bytes; /* of one entry that sees the whole latent */
    graft_attending attending;
    graft_controls *controls;   /* NULL without ControlNets */
    graft_blurred *blurred;     /* NULL without self-attention guidance */
    graft_answers *answers;     /* NULL without EasyCache */
    graft_cfg_changes *changes; /* of guidance; NULL without */
};

/* The entries that do, into g->active; both: the negative ones in any case. */
void graft_guided_collect(graft_guided *g, float sigma, bool both);
/* Which of the active entries are fast, settled before any of them runs; scaled: the UNet's x, NULL
 * where DeepCache does not look into it. */
void graft_guided_settle(graft_guided *g, const float *scaled);
/* graft_active_group() of g->active. */
size_t graft_guided_group(graft_guided *g, size_t *which);
graft_unet_variant graft_guided_variant(const graft_guided *g, bool fast);
/* How a batch of these active entries uses the UNet. */
graft_unet_use graft_guided_use(const graft_guided *g, const size_t *which, size_t count);
/* Makes what steers a batch of active entries, or takes it from the last whole step where they are
 * fast. in: as for graft_controls_run(), in the memory that the controls are in. */
graft_status graft_guided_steer(graft_guided *g, const size_t *which, size_t count,
                                const graft_unet_use *use, float sigma, const void *const *in,
                                graft_err *e);
/* Appends what the network takes behind y and DeepCache's feature: residuals and features, and
 * what it sees beside the prompts, in that memory, too. */
#define GRAFT_GUIDED_INPUTS (GRAFT_NET_RESIDUALS + GRAFT_T2I_FEATURES + 9 + 2 * GRAFT_WITHIN_MOST)
graft_status graft_guided_append(graft_guided *g, const size_t *which, size_t count,
                                 const graft_unet_use *use, const void **in, size_t *n,
                                 graft_err *e);
/* DeepCache: what the batch's whole step was steered by and saw, for the fast ones after it. */
graft_status graft_guided_keep(graft_guided *g, const size_t *which, size_t count, float sigma,
                               graft_err *e);
/* Values of such a part of the latent, all pictures. */
size_t graft_guided_values(const graft_guided *g, const graft_box *b);
/* Bytes of DeepCache's feature of it, never more than of the whole. */
size_t graft_guided_feature_bytes(const graft_guided *g, const graft_box *b);
/* What x is multiplied by for the network. */
float graft_guided_scale(const graft_guided *g, float sigma);
/* cos and sin of v at falling frequencies, as of timesteps: `width` numbers, which is even. */
void graft_guided_waves(double v, int64_t width, float *out);
/* y of one picture, graft_net_y_width() values; negative: on which side the prompt stands. */
void graft_guided_fill_y(const graft_guided *g, const graft_cond_entry *k, bool negative, float *y);
graft_guidance_terms graft_guided_terms(const graft_guided *g, float sigma);
#endif
