/* FLUX.2's transformer (Black Forest Labs, 2025) as a graph: of klein, and of dev. A rectified flow
 * with FLUX.1's two kinds of blocks (flux.h), and with a latent of which each cell is one token. No
 * layer has a bias. What the time says to blocks is computed once for all of a kind, where FLUX.1
 * has a layer in each. MLPs are gated (SwiGLU: Shazeer 2020, arXiv:2002.05202), and in blocks of
 * one stream their first layer is that of queries, keys and values, their last that of attention's
 * output. Queries and keys turn along four axes, a quarter of a head each: which of several
 * pictures, row, column, and a word's place in the prompt. */
#ifndef GRAFT_MODELS_FLUX2_H
#define GRAFT_MODELS_FLUX2_H
#include "engine/graph/graph.h"
#include "engine/models/parts/arch.h"
#include "engine/models/parts/net_shape.h"

/* Of a prompt: shorter ones were filled up to as many in training, with tokens that others see. */
#define GRAFT_FLUX2_TOKENS 512
/* Pixels of the picture on a side of the latent's cells. */
#define GRAFT_FLUX2_CELL 16

/* Inputs: x (N,channels,h,w), or with references (N,graft_net_x_values()), the latent and then each
 * of them, (channels,rows,columns); timesteps (N) of 0 to 1000, context (N,tokens,context_dim), and
 * where the network is told a guidance scale (dev) y (N,1). Output: (N,channels,h,w). Reference i
 * stands at 10 (i + 1) on the first axis, GRAFT_PLACE_DIAGONAL is GRAFT_E_UNSUPPORTED. Of the shape
 * batch, height, width, tokens, act_dtype and references count; all else must be zero, or
 * GRAFT_E_UNSUPPORTED. So is float16, which the stream's values may exceed. */
graft_status graft_flux2_build(const graft_flux2_arch *a, const graft_net_shape *shape,
                               graft_graph **out, graft_err *e);
#endif
