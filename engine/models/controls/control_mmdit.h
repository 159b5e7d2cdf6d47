/* ControlNets for Stable Diffusion 3 as graphs, in two forms. As diffusers has them
 * (SD3ControlNetModel; InstantX 2024): a transformer of fewer blocks that adds the hint's squares
 * to the latent's, and is given zeros for the pooled prompt. Stability's for 3.5 large (2024):
 * blocks of the picture alone, which see no prompt but its pooled vector, and the latent as the
 * network that they steer embeds it.
 *
 * Behind each block a linear layer makes a residual; of n for N of the network's blocks, block k
 * takes residual floor(k n / N), the last none.
 *
 * Weights have the names of Stability's checkpoints; those that the network has not are diffusers'.
 */
#ifndef GRAFT_MODELS_CONTROL_MMDIT_H
#define GRAFT_MODELS_CONTROL_MMDIT_H
#include "engine/models/parts/control_residuals.h"

/* As graft_control_hint_build() and graft_control_build(), into a new graph. */
void graft_control_mmdit_hint(const graft_control_arch *a, int64_t batch, int64_t height,
                              int64_t width, const graft_build *b);
void graft_control_mmdit(const graft_control_arch *a, const graft_control_shape *s,
                         const graft_build *b);
#endif
