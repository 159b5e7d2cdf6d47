/* The pictures that ControlNets of transformers follow, as latents: made once a run, however many
 * of a chain and however many parts of the picture need them. Belongs to one run, on one thread. */
#ifndef GRAFT_DENOISE_HINT_LATENTS_H
#define GRAFT_DENOISE_HINT_LATENTS_H
#include "engine/denoise/guided_config.h"
#include "engine/objects/control.h"

#define GRAFT_HINT_SCALING "nearest-exact" /* of hints, as ComfyUI scales them */

struct graft_hint_latent;
/* Zeroed at first. */
typedef struct graft_hint_latents {
    struct graft_hint_latent *seen;
    size_t n, cap;
} graft_hint_latents;

void graft_hint_latents_finish(graft_hint_latents *h);
/* What the ControlNet's hint graph takes for `rows` pictures of this part of the latent; freed with
 * graft_free(). Pictures repeat. */
graft_status graft_hint_latents_take(graft_hint_latents *h, const graft_guided_config *c,
                                     const graft_control *l, const graft_box *box, int64_t rows,
                                     float **out, graft_err *e);
#endif
