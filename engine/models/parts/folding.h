/* FLUX.2's latents: a place has the cells of a square, 2 by 2, as planes, which are normalized by
 * statistics that the VAE's file has. The halves of the VAE see cells, all else sees places.
 *
 * Plane 4 c + 2 y + x of a place is channel c of the cell in row y and column x of its square,
 * less the plane's mean and divided by sqrt(variance + GRAFT_FOLDING_EPS), as
 * AutoencoderKLFlux2 of diffusers has it (public under Apache-2.0). Any thread. */
#ifndef GRAFT_MODELS_FOLDING_H
#define GRAFT_MODELS_FOLDING_H
#include <stdint.h>

#include "base/error.h"
#include "engine/weights/weights.h"

#define GRAFT_FOLDING_EPS 1e-4f
/* The statistics in the VAE's file, and of how many planes. */
#define GRAFT_VAE_MEAN          "bn.running_mean"
#define GRAFT_VAE_VARIANCE      "bn.running_var"
#define GRAFT_VAE_FOLDED_PLANES 128

/* Of each plane; the deviation is the root above, so it is not 0. */
typedef struct graft_folding {
    float mean[GRAFT_VAE_FOLDED_PLANES], deviation[GRAFT_VAE_FOLDED_PLANES];
} graft_folding;

/* From the VAE's part of a file. GRAFT_E_FORMAT where one of the two is missing, for a variance
 * below 0, and for numbers that are not finite; GRAFT_E_UNSUPPORTED where they have another
 * length. */
graft_status graft_folding_read(const graft_weights *w, graft_folding *out, graft_err *e);
/* That changes no number: of a VAE for places as the network sees them. */
void graft_folding_alone(graft_folding *out);
/* Places (128,height,width) to cells (32,2 height,2 width), and back. */
void graft_folding_undo(const graft_folding *f, const float *places, int64_t height, int64_t width,
                        float *cells);
void graft_folding_do(const graft_folding *f, const float *cells, int64_t height, int64_t width,
                      float *places);
#endif
