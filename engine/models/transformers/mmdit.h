/* The multimodal diffusion transformer of Stable Diffusion 3 and 3.5 (Esser et al. 2024,
 * arXiv:2403.03206) as a graph. Squares of the latent and the prompt's tokens are two streams with
 * weights of their own, which meet in the attention of each block. */
#ifndef GRAFT_MODELS_MMDIT_H
#define GRAFT_MODELS_MMDIT_H
#include "engine/graph/graph.h"
#include "engine/models/parts/arch.h"
#include "engine/models/parts/net_shape.h"

/* Inputs: x (N,channels,h,w), timesteps (N), context (N,tokens,context_dim), y (N,pooled_dim), with
 * a number more where it counts tokens, the residuals of ControlNets where it is steered. Output:
 * (N + perturbed,channels,h,w). h and w are multiples of the patch. Of the shape batch, height,
 * width, tokens, act_dtype, perturbed, skip, control and steered count; all that only UNets have
 * must be zero, else GRAFT_E_UNSUPPORTED. Residuals, (N,h/patch,w/patch,hidden) of act_dtype, join
 * the picture's tokens behind a block; the last block takes none.
 *
 * Perturbed rows are computed without the blocks in `skip`, which is not 0 then (rows.h); without
 * perturbed rows all are. */
graft_status graft_mmdit_build(const graft_mmdit_arch *a, const graft_net_shape *shape,
                               graft_graph **out, graft_err *e);
/* Most prompts have so many tokens, CLIP's and T5's, or fewer. */
#define GRAFT_MMDIT_TOKENS (77 + 77)
/* As graft_flux_counts_tokens(). */
static inline bool graft_mmdit_counts_tokens(int64_t tokens)
{
    return tokens > GRAFT_MMDIT_TOKENS;
}
/* The first step alone, for ControlNets that see the latent as the network embeds it: x to
 * (N,h/patch,w/patch,hidden) of act_dtype. Of the shape batch, height, width and act_dtype count.
 */
graft_status graft_mmdit_embed_build(const graft_mmdit_arch *a, const graft_net_shape *shape,
                                     graft_graph **out, graft_err *e);
#endif
