/* Qwen-Image's transformer (Alibaba, 2025, arXiv:2508.02324; diffusers' code is public under
 * Apache-2.0) as a graph: a rectified flow whose prompt and picture are streams of their own in all
 * blocks, with one attention. Queries and keys are normed and carry
 * their places as rotations along three axes: the picture stands with its middle at row and column
 * 0, and the prompt's tokens behind it on a diagonal, at the same number of all three axes, from
 * half of the picture's longer side on.
 *
 * Qwen-Image-Edit sees pictures behind the one that it makes: each has a number on the first axis,
 * 1 and on, and its own middle at 0. The prompt begins behind the longest side of all. Those of
 * Edit-2511 are conditioned on a time of 0, which is that of pictures without noise.
 *
 * Qwen-Image-Layered (arXiv:2512.15603) makes the layers that one picture consists of, and the
 * whole picture ahead of them: each is as any picture, with its number on the first axis, and the
 * one that is taken apart stands at -1 there, behind them all in the sequence. The prompt begins no
 * earlier than at the number of layers. What the network is conditioned on is added to the time. */
#ifndef GRAFT_MODELS_QWEN_IMAGE_H
#define GRAFT_MODELS_QWEN_IMAGE_H
#include "engine/graph/graph.h"
#include "engine/models/parts/arch.h"
#include "engine/models/parts/net_shape.h"

/* Inputs: x (N,channels,h,w), or with references (N,graft_net_x_values()), the latent and then each
 * of them; timesteps (N) of 0 to 1000, context (N,tokens,context_dim), y (N,1): how many
 * of the prompt's tokens are its own, behind which all are as if they were not there. Output:
 * (N,channels,h,w), of a flow as SD 3's have it. With control the residuals (controlnet.h) come
 * behind y, and each is added to the latent's tokens behind the blocks that `steered`
 * says. Then come hints and strengths of what runs within it (control_blockwise.h), which sees
 * those tokens without the block's residual. h and w are multiples of the patch. Of the shape
 * batch, height, width, tokens, act_dtype, references, control, steered, within and within_rows
 * count; all else must be zero, or GRAFT_E_UNSUPPORTED. So is float16, which the streams' values
 * exceed, and references on a diagonal, and for a layered one control, within and more than one
 * reference. */
graft_status graft_qwen_image_build(const graft_qwen_image_arch *a, const graft_net_shape *shape,
                                    graft_graph **out, graft_err *e);
#endif
