/* Qwen-Image 2.1's transformer (Alibaba, 2026; diffusers' code is public under Apache-2.0) as a
 * graph: a rectified flow whose prompt and picture are one sequence of tokens. The prompt's tokens
 * see those before them and themselves, those of the picture see all; and the prompt is told that
 * there is no noise, whatever the time. So what becomes of it changes neither with the time nor
 * with the picture, and is computed once in a sampling.
 *
 * One layer tells all blocks the time, by two scales and two gates, without shifts. Queries and
 * keys are normed and carry their places as rotations along three axes: a prompt's token stands at
 * its number on all three, the picture at the number behind the last on the first, with its middle
 * at row and column 0. No layer has a bias.
 *
 * References stand among the prompt's tokens, where it speaks of them: each is told that there is
 * no noise in it, sees what is before it and all of itself, and is seen by all that is behind it.
 * It stands on the first axis where the next word would, with its middle at row and column 0, and
 * that word as much further on as the longer of its sides is in cells. */
#ifndef GRAFT_MODELS_QWEN_IMAGE21_H
#define GRAFT_MODELS_QWEN_IMAGE21_H
#include "engine/graph/graph.h"
#include "engine/models/parts/arch.h"
#include "engine/models/parts/net_shape.h"

#define GRAFT_QWEN_IMAGE21_CELL 16 /* pixels of the picture on a side of the latent's cells */

/* Inputs: x (N,channels,h,w), or with references (N,graft_net_x_values()), the latent and then each
 * of them likewise, timesteps (N) of 0 to 1000, context (N,tokens,context_dim), and y
 * (N,1): how many of the prompt's tokens are its own, behind which all are as if they were not
 * there. Output: (N,channels,h,w), of a flow as SD 3's have it. Of the shape batch, height, width,
 * tokens, act_dtype and references count; all else must be zero, or GRAFT_E_UNSUPPORTED. So is
 * float16, which the tokens' values exceed. GRAFT_E_ARG for references that do not stand one behind
 * the other before the prompt's last token. */
graft_status graft_qwen_image21_build(const graft_qwen_image21_arch *a,
                                      const graft_net_shape *shape, graft_graph **out,
                                      graft_err *e);
#endif
