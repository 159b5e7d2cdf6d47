/* The guided denoiser as an object: what one sampling run has in memory, whichever way it computes,
 * in the host's memory (denoise.c) or on a device (resident.c). Belongs to the run's thread. */
#ifndef GRAFT_DENOISE_GUIDED_H
#define GRAFT_DENOISE_GUIDED_H
#include "engine/denoise/answers.h"
#include "engine/denoise/attending.h"
#include "engine/denoise/batches.h"
#include "engine/denoise/blurred.h"
#include "engine/denoise/boxed.h"
#include "engine/denoise/cfg_changes.h"
#include "engine/denoise/controls.h"
#include "engine/denoise/features.h"
#include "engine/denoise/guided_config.h"
#include "engine/denoise/hooked.h"
#include "engine/denoise/known.h"
#include "engine/denoise/series.h"

#define MAX_BINDINGS 16 /* different variants and shapes within one run */

typedef struct bound_shape {
    graft_unet_use use;
    graft_hash weights; /* active's */
    graft_binding *binding;
} bound_shape;

typedef struct graft_guided {
    graft_guided_config c;
    graft_regions regions;
    bound_shape bound[MAX_BINDINGS];
    size_t n_bound;
    int64_t arena; /* the most bytes of activations that a network of the run has */
    graft_series series;
    graft_hooked hooked;
    bool hooks;               /* some prompt has hooks, which this run looks at */
    graft_hash *kept_weights; /* of each slot: its last whole step's, for DeepCache; or NULL */
    active *active;
    size_t n_active;
    int64_t n, per;                       /* values of the latent in all, and per picture */
    double cfg;                           /* of the run; c.cfg is the present call's */
    size_t step;                          /* of the sampler */
    float sigma;                          /* of the present call */
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
    graft_boxed boxed;
    graft_controls *controls;   /* NULL without ControlNets */
    graft_blurred *blurred;     /* NULL without self-attention guidance */
    graft_answers *answers;     /* NULL without EasyCache */
    graft_cfg_changes *changes; /* of guidance; NULL without */
} graft_guided;

/* Checks what does not go together, and allocates; runs nothing. */
graft_status graft_guided_create(const graft_guided_config *config, graft_guided **out,
                                 graft_err *e);
void graft_guided_destroy(graft_guided *g);
/* Whether what each side predicts is kept apart until it is put together: prompts that count in
 * parts of the picture, third prompts, changes of guidance, EasyCache. */
bool graft_guided_apart(const graft_guided *g);
/* The sampler begins its step `step`; 0 needs no call. */
void graft_guided_step(graft_guided *g, size_t step);
/* The run came to its end: tells the task's log what the model wants told of it. */
void graft_guided_tell(const graft_guided *g);
#endif
