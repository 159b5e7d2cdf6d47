/* FLUX.1's transformer (Black Forest Labs, 2024) as a graph: a rectified flow like Stable Diffusion
 * 3's. Blocks of two streams, as there, come first, then blocks of one, which has the prompt's
 * tokens before those of the picture and computes attention and MLP side by side (Dehghani et al.
 * 2023, arXiv:2302.05442). Queries and keys carry their places as rotations (Su et al. 2021,
 * arXiv:2104.09864). Chroma's is the same, but for where the vectors of its blocks are from, which
 * need neither a pooled prompt nor a guidance scale (chroma.h).
 *
 * LongCat-Image's (Meituan 2025, arXiv:2512.07584; transformer_longcat_image.py of diffusers,
 * Apache-2.0) is told neither of these, and neither is Ovis-Image's (AIDC-AI 2025; its model.py and
 * layers.py, Apache-2.0), whose MLPs are SwiGLU's (Shazeer 2020, arXiv:2002.05202) and whose
 * prompts go through an RMS norm first. Word i of their prompts, padding included, stands at row
 * and column i. Ovis-Image's pictures begin at 0 as FLUX.1's do; LongCat-Image's begin behind the
 * last word on both axes, the latent in frame 1, its references in 2, 3 and so on. */
#ifndef GRAFT_MODELS_FLUX_H
#define GRAFT_MODELS_FLUX_H
#include "engine/graph/graph.h"
#include "engine/models/parts/arch.h"
#include "engine/models/parts/net_shape.h"

/* Inputs: x (N,channels+beside,h,w), or with references (N,graft_net_x_values()), the latent and
 * then each of them, (channels,rows,columns); timesteps (N) of 0 to 1000, context
 * (N,tokens,context_dim), y (N,graft_flux_y_width()): the pooled prompt, then the guidance scale
 * where the network is told one, then a number more where it counts tokens, and no y where none of
 * these is there; the residuals of ControlNets where it is steered. Output: (N +
 * perturbed,channels,h,w). h and w are multiples of the patch. Of the shape batch, height, width,
 * tokens, act_dtype, references, perturbed, skip, untold, control and steered count; all else must
 * be zero, or GRAFT_E_UNSUPPORTED. Residuals, (N,h/patch,w/patch,hidden) of act_dtype, join the
 * latent's tokens behind a block. Perturbed rows are computed without the blocks in `skip`, those
 * of one stream behind those of two, which is not 0 then (rows.h); without perturbed rows all are.
 */
graft_status graft_flux_build(const graft_flux_arch *a, const graft_net_shape *shape,
                              graft_graph **out, graft_err *e);
static inline int32_t graft_flux_y_width(const graft_flux_arch *a)
{
    return a->pooled_dim + a->guidance;
}
/* Prompts have at least so many tokens; padding is attended to, as in training. */
#define GRAFT_FLUX_TOKENS    256
#define GRAFT_LONGCAT_TOKENS 512
#define GRAFT_OVIS_TOKENS    256
/* Whether y has one number more, of such prompts: how many of the tokens are the prompt's own. All
 * behind them are as if they were not there. With an approximator it always has; where words have
 * places it never has. */
static inline bool graft_flux_counts_tokens(const graft_flux_arch *a, int64_t tokens)
{
    return a->approximator || (!a->words && tokens > GRAFT_FLUX_TOKENS);
}
#endif
