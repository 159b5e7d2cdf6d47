/* ERNIE-Image's transformer (Baidu, 2026; diffusers' code is public under Apache-2.0) as a graph: a
 * rectified flow with one stream of tokens, the picture's and the prompt's, from the first block to
 * the last. What the time says to blocks is computed once, and all of them take it as it is. Norms
 * are by a root mean square, but for the last; MLPs are gated by an exact GELU.
 *
 * Queries and keys carry their places along three axes: the prompt's tokens stand at 0, 1, 2, ...
 * of the first and at 0 of the others; the picture at the number of words on the first, with its
 * rows and columns on the others. Each axis has angles for a part of a head, a, a, b, b, c, c and
 * so on, each of them twice; but value i of a head is turned against value i of its other half. So
 * the two values of a pair turn by different angles, which is no rotation, and no product of a
 * query and a key is left by the distance alone: places have to be those of the training. */
#ifndef GRAFT_MODELS_ERNIE_IMAGE_H
#define GRAFT_MODELS_ERNIE_IMAGE_H
#include "engine/graph/graph.h"
#include "engine/models/parts/arch.h"
#include "engine/models/parts/net_shape.h"

/* Inputs: x (N,channels,h,w), planes as FLUX.2's VAE has them (folding.h), of which each cell is
 * one token; timesteps (N) of 0 to 1000; context (N,tokens,context_dim); and y (N,1): how many of
 * the prompt's tokens are its own, behind which all are as if they were not there. Output:
 * (N,channels,h,w), of a flow as SD 3's have it. Of the shape batch, height, width, tokens and
 * act_dtype count; all else must be zero, or GRAFT_E_UNSUPPORTED. So is float16, which the stream's
 * values may exceed. */
graft_status graft_ernie_image_build(const graft_ernie_image_arch *a, const graft_net_shape *shape,
                                     graft_graph **out, graft_err *e);
#endif
