/* ControlNets for Qwen-Image as diffusers has them (QwenImageControlNetModel: InstantX 2025) as
 * graphs: a Qwen-Image transformer of fewer blocks that adds the hint's tokens to those of the
 * latent. Behind each block a linear layer makes a residual of the latent's tokens; of n for N of
 * the network's blocks, residual i goes to those from i * ceil(N / n) on. A union ControlNet is
 * told no type: it sees it. Weights have diffusers' names. */
#ifndef GRAFT_MODELS_CONTROL_QWEN_IMAGE_H
#define GRAFT_MODELS_CONTROL_QWEN_IMAGE_H
#include "engine/models/parts/control_residuals.h"

/* As graft_control_hint_build() and graft_control_build(), into a new graph. */
void graft_control_qwen_image_hint(const graft_control_arch *a, int64_t batch, int64_t height,
                                   int64_t width, const graft_build *b);
void graft_control_qwen_image(const graft_control_arch *a, const graft_control_shape *s,
                              const graft_build *b);
#endif
