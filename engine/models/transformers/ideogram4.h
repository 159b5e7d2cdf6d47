/* Ideogram 4's transformer (ideogram.ai, 2026; its authors' code and diffusers' are public under
 * Apache-2.0) as a graph: a rectified flow with one stream of tokens, the picture's and the
 * prompt's, from the first block to the last. A token of the prompt is what 13 layers of a language
 * model made of it, one number of each layer after the other; it is normed and goes through one
 * linear layer. Branches are normed before they begin and before they join the stream, by a root
 * mean square; gates are a tanh, and nothing is shifted.
 *
 * Queries and keys carry their places as rotations along three axes that take turns within a head
 * (ROPE's mixed heads, kernels/ops.def), half of a head against the other: the prompt's tokens
 * stand at 0, 1, 2, ... of all three; the picture at 65536 of the first, with its rows and columns
 * from 65536 on. A vector of its own tells the picture's tokens from the prompt's.
 *
 * A network of the same shape goes with it, which sees no prompt: its prediction is what guidance
 * leads away from. */
#ifndef GRAFT_MODELS_IDEOGRAM4_H
#define GRAFT_MODELS_IDEOGRAM4_H
#include "engine/graph/graph.h"
#include "engine/models/parts/arch.h"
#include "engine/models/parts/latent_planes.h"
#include "engine/models/parts/net_shape.h"

#define GRAFT_IDEOGRAM4_CELL   16 /* pixels of a cell of the latent, which is one token */
#define GRAFT_IDEOGRAM4_LAYERS 13 /* of the language model, in a token of the prompt */

/* Inputs: x (N,channels,h,w), planes as FLUX.2's VAE has them (folding.h); timesteps (N) of 0 to
 * 1000; context (N,tokens,context_dim), the layers of a token side by side; and y (N,1): how many
 * of the prompt's tokens are its own, behind which all are as if they were not there; 0: the
 * picture is alone. Output: (N,channels,h,w), of a flow as SD 3's have it: the network itself gives
 * its negative, and is told how much of the picture there is, not of the noise. Of the shape batch,
 * height, width, tokens and act_dtype count; all else must be zero, or GRAFT_E_UNSUPPORTED. So is
 * float16, which the stream's values may exceed. */
graft_status graft_ideogram4_build(const graft_ideogram4_arch *a, const graft_net_shape *shape,
                                   graft_graph **out, graft_err *e);

/* What the network sees of latents that are normalized as FLUX.2's VAE normalizes them: its authors
 * did so by numbers of their own. */
extern const graft_latent_planes graft_ideogram4_planes;
#endif
