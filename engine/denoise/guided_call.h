/* One call of the guided denoiser, as far as its two ways (denoise.c, resident.c) have it in
 * common: which prompts count, in which batches, what the network is given, and what becomes of its
 * result. What compiles ahead (prepare.c) asks the same. */
#ifndef GRAFT_DENOISE_GUIDED_CALL_H
#define GRAFT_DENOISE_GUIDED_CALL_H
#include "engine/denoise/guided.h"
#include "kernels/guidance.h"

/* Where the call's perturbed predictions go; NULL: it has none. */
static inline float *graft_guided_perturbed(const graft_guided *g)
{
    return g->perturbs ? g->perturbed : NULL;
}
/* Collects the entries that count at this sigma into g->active; both: the negative ones in any
 * case. */
void graft_guided_collect(graft_guided *g, float sigma, bool both);
/* Which of the active entries are fast, settled before any of them runs; scaled: the UNet's x, NULL
 * where DeepCache does not look into it. */
void graft_guided_settle(graft_guided *g, const float *scaled);
/* graft_active_group() of g->active. */
size_t graft_guided_group(graft_guided *g, size_t *which);
graft_variant graft_guided_variant(const graft_guided *g, bool fast);
/* How a batch of these active entries uses the UNet. */
graft_unet_use graft_guided_use(const graft_guided *g, const size_t *which, size_t count);
/* Makes what steers a batch of active entries, or takes it from the last whole step where they are
 * fast. in: as for graft_controls_run(), in the memory that the controls are in. */
graft_status graft_guided_steer(graft_guided *g, const size_t *which, size_t count,
                                const graft_unet_use *use, float sigma, const void *const *in,
                                graft_err *e);
/* Appends what the network takes behind y and DeepCache's feature: residuals and features, and
 * what it sees beside the prompts, in that memory, too. */
#define GRAFT_GUIDED_INPUTS (GRAFT_NET_RESIDUALS + GRAFT_T2I_FEATURES + 10 + 2 * GRAFT_WITHIN_MOST)
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
graft_guidance_terms graft_guided_terms(const graft_guided *g, float sigma);
#endif
