/* Z-Image's transformer (Tongyi-MAI, 2025) as a graph, in the line of Lumina-Image 2.0 (Qin et al.
 * 2025, arXiv:2503.21758): a rectified flow whose prompt and picture are one stream of tokens. A
 * few blocks of their own see each of the two first. Branches are normed before they begin and
 * before they join the stream, by a root mean square; gates are a tanh. Queries and keys carry
 * their places as rotations along three axes: the prompt's tokens stand at 1, 2, 3, ... of the
 * first, the picture's behind them all, at their row and column of the others. */
#ifndef GRAFT_MODELS_ZIMAGE_H
#define GRAFT_MODELS_ZIMAGE_H
#include "engine/graph/graph.h"
#include "engine/models/arch.h"
#include "engine/models/unet.h"

/* A prompt, and a picture, are as many tokens as this or a multiple: the rest is filled with a
 * token that was trained for that, and which the others see. */
#define GRAFT_ZIMAGE_TOKENS 32

/* Inputs: x (N,channels,h,w), timesteps (N) of 0 to 1000, context (N,tokens,context_dim), y
 * (N,GRAFT_ZIMAGE_TOKENS): 1 for those of the last tokens that fill the prompt up, else 0, and the
 * residuals of ControlNets where it is steered (control_zimage.h). Output:
 * (N,channels,h,w), of a flow as SD 3's have it: the network itself gives its negative, and is told
 * how much of the picture there is, not of the noise. h and w are multiples of the patch, tokens
 * one of GRAFT_ZIMAGE_TOKENS. Of the shape batch, height, width, tokens, act_dtype, control and
 * steered count; all else must be zero, or GRAFT_E_UNSUPPORTED. So is float16, which the stream's
 * values exceed. */
graft_status graft_zimage_build(const graft_zimage_arch *a, const graft_unet_shape *shape,
                                graft_graph **out, graft_err *e);
/* For so many tokens of a prompt. */
static inline int64_t graft_zimage_tokens(int64_t tokens)
{
    const int64_t blocks = (tokens + GRAFT_ZIMAGE_TOKENS - 1) / GRAFT_ZIMAGE_TOKENS;
    return (blocks > 0 ? blocks : 1) * GRAFT_ZIMAGE_TOKENS;
}
#endif
