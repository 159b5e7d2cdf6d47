/* What an inpainting UNet sees of the picture: behind the latent's channels in its x stand the
 * mask, 1 where it is to paint, and the latent of the picture without that part (Rombach et al.
 * 2022, arXiv:2112.10752, 4.5; the order is that of the published UNets with 9 channels). Both stay
 * the same over all steps. Belongs to one run, on one thread. */
#ifndef GRAFT_DENOISE_KNOWN_H
#define GRAFT_DENOISE_KNOWN_H
#include "engine/denoise/denoise.h"
#include "engine/denoise/regions.h"

typedef struct graft_known {
    int64_t channels;   /* of mask and latent; 0: the model takes none */
    const float **slot; /* of each prompt, positive ones first: (N, channels, h, w) */
    size_t slots;
    float **made; /* those there are: prompts with one source share it */
    size_t n_made;
} graft_known;

/* Prompts have theirs from graft_cond_inpaint(): it is scaled to the run's latent (bilinear), the
 * mask becomes 0 or 1, and both repeat over the batch. Those without get the mask of the run's
 * latent and that latent; where it has no mask, all is to be painted, and what is known is grey. */
graft_status graft_known_create(const graft_guided_config *c, graft_known *out, graft_err *e);
/* Takes what is zero, and what creating left when it failed. */
void graft_known_finish(graft_known *k);
/* A batch's x for one prompt: latent (N, C, box) and its slot's part of the known picture become
 * (N, C + channels, box). */
void graft_known_join(const graft_known *k, const graft_guided_config *c, size_t slot,
                      const graft_box *box, const float *latent, float *x);
/* Where the prompt has it from; two with the same have the same x. NULL: the run's latent, or the
 * model takes none. */
const void *graft_known_source(const graft_model *m, const graft_cond_entry *k);
#endif
