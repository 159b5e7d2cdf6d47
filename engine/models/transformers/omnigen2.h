/* OmniGen2's transformer (VectorSpaceLab, 2025, arXiv:2506.18871; its authors' code is public under
 * Apache-2.0) as a graph: Lumina-Image 2.0's (zimage.h) with pictures that it is shown, in other
 * names. Its blocks are the same: branches are normed before they begin and before they join the
 * stream, by a root mean square; gates are a tanh; a few heads of keys and values serve several of
 * queries each. The prompt, the picture and each of those that are shown go through a few blocks of
 * their own, the latter by weights and an embedding of theirs and with a vector for each of their
 * numbers, and then all of them are one stream. All but the prompt's blocks are told the time.
 *
 * Places turn by a third of a head along each of three axes. A token of the prompt stands at its
 * number on all of them, as its words do for Qwen 2.5-VL; a picture behind the prompt's last token
 * on the first and at its rows and columns, from 0 on, of the others: first those that are shown,
 * each as much further as the one before is long on its longer side, then the one that is made. The
 * graph leaves pictures where they are in a prompt without tokens, and turns the prompt's queries
 * and keys back by how many tokens count. */
#ifndef GRAFT_MODELS_OMNIGEN2_H
#define GRAFT_MODELS_OMNIGEN2_H
#include "engine/graph/graph.h"
#include "engine/models/parts/arch.h"
#include "engine/models/parts/net_shape.h"

/* Inputs: x (N,channels,h,w), or with references (N,graft_net_x_values()), the latent and then each
 * of them; timesteps (N) of 0 to 1000, context (N,tokens,context_dim), y (N,1): how many of the
 * prompt's tokens are its own, behind which all are as if they were not there. Output:
 * (N,channels,h,w), of a flow as SD 3's have it: the network itself gives its negative, and is told
 * how much of the picture there is, not of the noise. h and w are multiples of the patch. Of the
 * shape batch, height, width, tokens, act_dtype and references count; all else must be zero, or
 * GRAFT_E_UNSUPPORTED. So is float16, which the stream's values exceed, and references that stand
 * otherwise than GRAFT_PLACE_BESIDE and GRAFT_PLACE_BEHIND, which are the same here, and of more
 * than it has numbers for. Without references the weights that are theirs alone are not named. */
graft_status graft_omnigen2_build(const graft_omnigen2_arch *a, const graft_net_shape *shape,
                                  graft_graph **out, graft_err *e);
#endif
