/* ControlNets for Z-Image (alibaba-pai, Z-Image-Turbo-Fun-Controlnet-Union 1, 2.0 and 2.1, 2025;
 * the authors' code is VideoX-Fun's z_image_transformer2d_control.py, diffusers' is
 * ZImageControlNetModel) as graphs: blocks of the network's own kind beside it. The first begins
 * with the stream as the network's layers do, plus a linear layer of the hint's stream:
 *
 *     c = before_proj(hint, prompt) + (picture, prompt);  c = block 0(c), block 1(c), …
 *
 * and what a linear layer (after_proj) makes of the stream behind block i, the prompt's tokens
 * included, is added behind the network's layer i * floor(N / n), of N for n blocks.
 *
 * In version 1 the hint's tokens go through blocks of their own before that
 * (control_noise_refiner). From 2.0 on they join the picture's tokens already there, and the first
 * residuals are added behind the network's noise_refiner; in 2.0 by the very blocks that follow,
 * which so run twice.
 *
 * The hint is a latent in the network's scale; from 2.0 on with a plane behind it, 1 where the
 * picture is to stay, and the latent of that picture without the rest, or zeros for both.
 *
 * The network's own first blocks run in it once more, by the network's weights: it is made for a
 * model (objects/control.h). Weights have the names of the published files, with queries, keys and
 * values joined as in the network's. */
#ifndef GRAFT_MODELS_CONTROL_ZIMAGE_H
#define GRAFT_MODELS_CONTROL_ZIMAGE_H
#include "engine/models/parts/control_residuals.h"

/* As graft_control_hint_build(), into a new graph. Output: (N,rows,columns,hidden). */
void graft_control_zimage_hint(const graft_control_arch *a, int64_t batch, int64_t height,
                               int64_t width, const graft_build *b);
/* As graft_control_build(), into a new graph. Inputs: x, timesteps, context, y, the hint's features
 * (pictures,rows,columns,hidden), strength; then residuals of its own blocks in what `more` names,
 * as the network takes them: (N,tokens,1,hidden) each, and in the second stage all residuals of the
 * first part, complete, before. Outputs: those of its own blocks, in order, of the parts that
 * belong to the stage.
 *
 * Before it is made for a model it takes the time (N,told) and the streams of picture and prompt
 * (N,32,hidden) in place of x, timesteps, context and y: names and shapes of its own weights are as
 * they will be. */
void graft_control_zimage(const graft_control_arch *a, const graft_control_shape *s,
                          const graft_build *b);
#endif
