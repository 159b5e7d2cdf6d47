/* What one sampling run of the guided denoiser needs, as whoever starts it says it: what all parts
 * of the denoiser read and none of them changes. */
#ifndef GRAFT_DENOISE_GUIDED_CONFIG_H
#define GRAFT_DENOISE_GUIDED_CONFIG_H
#include "engine/denoise/regions.h"
#include "engine/sampling/sampler.h"

/* One call of the UNet, for those who look on. Entry i of the batch has `pictures` rows. */
typedef struct graft_guided_call {
    graft_variant variant;
    const void *const *in; /* as for graft_exe_run; gone after the callback */
    int64_t pictures, height, width, tokens;
    size_t entries;
    const graft_references *references;
    const bool *negative; /* of each entry: it is not a positive one */
    double seconds;
} graft_guided_call;
typedef struct graft_guided_tap {
    void *ctx;
    graft_status (*call)(void *ctx, const graft_guided_call *call, graft_err *e);
} graft_guided_tap;

/* What one sampling run needs; everything is borrowed until graft_guided_destroy(). */
typedef struct graft_guided_config {
    const graft_model *model;
    const graft_sigma_table *table;
    const graft_cond *positive, *negative;
    graft_third third; /* without a prompt: none */
    double cfg;
    int64_t shape[4];  /* of the latent, as graft_latent_shape_for() has it */
    int64_t layers;    /* of it; 0: as 1 */
    size_t steps;      /* of the sampler; for DeepCache's schedule */
    float first, last; /* sigmas of the run, for differential diffusion */
    uint64_t seed;     /* of the noise on pictures that an unCLIP model is told of */
    /* Inpainting: mask (N,h,w) in 0..1, 1 = may change; the latent in the UNet's space and the
     * noise it started with. All NULL without a mask. */
    const float *mask, *latent, *noise;
    const graft_task *task;
    const graft_guided_tap *tap; /* may be NULL */
} graft_guided_config;
/* All prompts of the run: the positive ones, then the negative ones, then third ones. */
static inline const graft_cond *graft_guided_list(const graft_guided_config *c, graft_side side)
{
    return side == GRAFT_POSITIVE   ? c->positive
           : side == GRAFT_NEGATIVE ? c->negative
                                    : c->third.prompt;
}
static inline size_t graft_guided_slots(const graft_guided_config *c)
{
    return c->positive->n + c->negative->n + (c->third.prompt ? c->third.prompt->n : 0);
}
/* *first: the slot with which its side begins. */
static inline graft_side graft_guided_side(const graft_guided_config *c, size_t slot, size_t *first)
{
    size_t n = c->positive->n;
    *first = slot < n ? 0 : n;
    if (slot < n) return GRAFT_POSITIVE;
    if (slot < n + c->negative->n) return GRAFT_NEGATIVE;
    *first = n + c->negative->n;
    return GRAFT_THIRD;
}
static inline const graft_cond_entry *graft_guided_entry(const graft_guided_config *c, size_t slot)
{
    size_t first;
    graft_side side = graft_guided_side(c, slot, &first);
    return graft_guided_list(c, side)->entry[slot - first];
}
#endif
