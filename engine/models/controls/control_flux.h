/* ControlNets for FLUX.1 as diffusers has them (FluxControlNetModel: InstantX, Shakker-Labs, and
 * others 2024) as graphs: a FLUX transformer of fewer blocks that adds the hint's tokens to those
 * of the latent. Behind each block a linear layer makes a residual of the latent's tokens; of n for
 * N of the network's blocks, residual i goes to those from i * ceil(N / n) on.
 *
 * A union ControlNet is told the type of its hint by a token before the prompt's, a row of its
 * table. Not told, it does without that token.
 *
 * Weights have the names of FLUX's own files; those that FLUX has not are diffusers'. */
#ifndef GRAFT_MODELS_CONTROL_FLUX_H
#define GRAFT_MODELS_CONTROL_FLUX_H
#include "engine/models/parts/control_residuals.h"

/* As graft_control_hint_build() and graft_control_build(), into a new graph. */
void graft_control_flux_hint(const graft_control_arch *a, int64_t batch, int64_t height,
                             int64_t width, const graft_build *b);
void graft_control_flux(const graft_control_arch *a, const graft_control_shape *s,
                        const graft_build *b);
#endif
