/* What a network sees beside the latent, the same over all steps: in its x, behind the latent's
 * channels, pictures that prompts bring. Belongs to one run, on one thread.
 *
 * Transformers see whole patches: a latent of an odd height or width goes on with its first row or
 * column, as in ComfyUI, and their prediction is cut; each layer of one does so by itself.
 *
 * Planes of the latent's size, by graft_beside: of an inpainting UNet the mask, 1 where it is to
 * paint, and the latent of the picture without that part (Rombach et al. 2022, arXiv:2112.10752,
 * 4.5; the order is that of the published UNets with 9 channels); of FLUX's Fill that latent, and
 * the mask's 8x8 pixels of a cell as planes, row by row, as their authors have it; of the others
 * (InstructPix2Pix: Brooks et al. 2022, arXiv:2211.09800; Canny, Depth) a latent alone. Latents are
 * scaled as the network's own are, but InstructPix2Pix's, which sees what the encoder gave.
 *
 * References, latents of any size, behind these (models/parts/net_shape.h). */
#ifndef GRAFT_DENOISE_KNOWN_H
#define GRAFT_DENOISE_KNOWN_H
#include "engine/denoise/guided_config.h"
#include "engine/denoise/regions.h"
#include "engine/exec/memory.h"

/* Of one prompt; both NULL: nothing. */
typedef struct graft_known_slot {
    const float *planes;     /* (N, channels, h, w) */
    const float *references; /* (N, reference_values) */
    int64_t reference_values;
} graft_known_slot;

typedef struct graft_known {
    int64_t channels;       /* of the planes; 0: the model takes none */
    bool joins;             /* x is more than the latent: planes, references, filled patches */
    graft_known_slot *slot; /* of each prompt, positive ones first */
    size_t slots;
    struct graft_known_made {  /* those there are: prompts with one source share it */
        float *values, *there; /* there: the same in `memory`, where that is a device's */
        size_t bytes;
    } * made;
    size_t n_made;
    graft_memory memory;
} graft_known;

/* Planes come from graft_cond_inpaint() or graft_cond_picture(): scaled to the run's latent
 * (bilinear, of another aspect the middle, as in ComfyUI), they are spread over the batch
 * (graft_batch_spread()); an inpainting UNet's mask becomes 0 or 1. Prompts and pictures without
 * get the mask of the run, and all of it where there is none. Without a picture an inpainting UNet
 * sees the run's latent, and grey in any case where there is no mask at all; the others see an
 * empty latent.
 *
 * References repeat over the batch in turn. */
graft_status graft_known_create(const graft_guided_config *c, graft_known *out, graft_err *e);
/* Takes what is zero, and what creating left when it failed. */
void graft_known_finish(graft_known *k);
/* Numbers of a picture's x for a prompt that sees so much of the latent. */
int64_t graft_known_x_values(const graft_known *k, const graft_guided_config *c, size_t slot,
                             const graft_box *box);
/* A batch's x for one prompt: latent (N, C, box), its slot's part of the planes and its references
 * become (N, graft_known_x_values()). */
void graft_known_join(const graft_known *k, const graft_guided_config *c, size_t slot,
                      const graft_box *box, const float *latent, float *x);
/* Copies all of it into a device's memory; of no effect for the host's. After GRAFT_E_NOMEM it can
 * be moved elsewhere. */
graft_status graft_known_move(graft_known *k, graft_memory to, graft_err *e);
/* graft_known_join() there, of a whole latent's part, which is of whole patches. */
graft_status graft_known_join_there(const graft_known *k, const graft_guided_config *c, size_t slot,
                                    const graft_box *box, const float *latent, float *x,
                                    graft_err *e);
/* Whether the run's latent is filled up to whole patches. */
bool graft_known_fills(const graft_guided_config *c);
/* `shape[0]` planes of shape[1] x shape[2], their part `box` filled up to whole patches; returns
 * what is behind them. */
float *graft_known_fill(const graft_model *m, const float *from, const int64_t shape[3],
                        const graft_box *box, float *to);
/* `planes` predictions of whole patches become those of the box, one behind the other. Of layers
 * each is filled up by itself. */
void graft_known_cut(const graft_guided_config *c, const graft_box *box, int64_t planes,
                     float *out);
/* Where the prompt has its planes from; two with the same have the same. NULL: the run's latent, or
 * the model takes none. */
const void *graft_known_source(const graft_model *m, const graft_cond_entry *k);
/* How the prompt's references, and so many layers of the latent, use the network; n 0 where it has
 * none, or the network takes none. */
graft_references graft_known_references(const graft_model *m, const graft_cond_entry *k,
                                        int64_t layers);
#endif
