/* Krea 2's transformer (krea.ai, 2026; diffusers' code is public under Apache-2.0) as a graph: a
 * rectified flow with one stream of tokens, the picture's and the prompt's, from the first block to
 * the last. A token of the prompt is what several layers of a language model made of it: a few
 * blocks of their own see the layers of each token, then all tokens, before they join the picture.
 *
 * Heads of queries share keys and values (Ainslie et al. 2023, arXiv:2305.13245), both are normed,
 * and what attention gives goes through a gate, a sigmoid of what it was asked with. Norms are by a
 * root mean square; files store their weights less one. What the time says is computed once, and
 * each block adds vectors of its own to it. Queries and keys of the picture carry their row and
 * column as rotations; a prompt's tokens all stand at the first of both, so that their order among
 * others counts for nothing. */
#ifndef GRAFT_MODELS_KREA2_H
#define GRAFT_MODELS_KREA2_H
#include "engine/graph/graph.h"
#include "engine/models/parts/arch.h"
#include "engine/models/parts/net_shape.h"

/* Inputs: x (N,channels,h,w), timesteps (N) of 0 to 1000, context (N,tokens,
 * text_layers*text_width), the layers of a token side by side, and y (N,1): how many of the
 * prompt's tokens are its own, behind which all are as if they were not there. Output:
 * (N,channels,h,w), of a flow as SD 3's have it. h and w are multiples of the patch. Of the shape
 * batch, height, width, tokens and act_dtype count; all else must be zero, or GRAFT_E_UNSUPPORTED.
 * So is float16, which the stream's values may exceed. */
graft_status graft_krea2_build(const graft_krea2_arch *a, const graft_net_shape *shape,
                               graft_graph **out, graft_err *e);
static inline int32_t graft_krea2_context(const graft_krea2_arch *a)
{
    return a->text_layers * a->text_width;
}
#endif
