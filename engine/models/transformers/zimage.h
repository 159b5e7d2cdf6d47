/* Lumina-Image 2.0's transformer (Qin et al. 2025, arXiv:2503.21758; its authors' and diffusers'
 * code are public under Apache-2.0) and Z-Image's (Tongyi-MAI, 2025), which is in its line, as a
 * graph: a rectified flow whose prompt and picture are one stream of tokens. A few blocks of their
 * own see each of the two first. Branches are normed before they begin and before they join the
 * stream, by a root mean square; gates are a tanh. Queries and keys carry their places as rotations
 * along three axes: the prompt's tokens stand at 1, 2, 3, ... of the first, the picture's behind
 * them all, at their row and column of the others.
 *
 * Z-Image fills prompts and pictures up with tokens that are trained for that, and which the others
 * see. Lumina-Image sees prompts as long as they are; in its attention a few heads of keys and
 * values serve several of queries each; places turn by other angles; and what tells blocks the time
 * goes through an activation first. Where only the distance of two places counts, its picture may
 * stand still and the prompt's last token before it, the one before that a place further and so on:
 * so prompts of any length have the same places, and those tokens that do not count are the last.
 */
#ifndef GRAFT_MODELS_ZIMAGE_H
#define GRAFT_MODELS_ZIMAGE_H
#include "engine/graph/graph.h"
#include "engine/models/parts/arch.h"
#include "engine/models/parts/net_shape.h"

/* Inputs: x (N,channels,h,w), timesteps (N) of 0 to 1000, context (N,tokens,context_dim), y
 * (N,GRAFT_ZIMAGE_TOKENS): 1 for those of the last tokens that fill the prompt up, else 0, and the
 * residuals of ControlNets where it is steered (control_zimage.h). Of Lumina-Image y (N,1): how
 * many of the prompt's tokens are its own, behind which all are as if they were not there; no
 * residuals. Output: (N,channels,h,w), of a flow as SD 3's have it: the network itself gives its
 * negative, and is told how much of the picture there is, not of the noise. h and w are multiples
 * of the patch, tokens of Z-Image one of GRAFT_ZIMAGE_TOKENS. Of the shape batch, height, width,
 * tokens, act_dtype, control and steered count; all else must be zero, or GRAFT_E_UNSUPPORTED. So
 * is float16, which the stream's values exceed. */
graft_status graft_zimage_build(const graft_zimage_arch *a, const graft_net_shape *shape,
                                graft_graph **out, graft_err *e);
#endif
