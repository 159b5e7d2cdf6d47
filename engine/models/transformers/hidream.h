/* HiDream-I1's transformer (Cai et al. 2025, arXiv:2505.22705; authors' code is public under MIT,
 * diffusers' under Apache-2.0) as a graph: a rectified flow with blocks of two streams, then blocks
 * of one, whose feed-forward layers are experts. A gate tells each token's weights of them by a
 * softmax, of which the largest count as they are; one expert more, a smaller one, sees all tokens.
 * The words of blocks of two streams have no experts.
 *
 * Each block reads what a layer of a language model of its own made of the prompt, Llama 3.1's: its
 * tokens are the last of the block's, which forgets them behind it. Those of T5, and of Llama's
 * last layer, go along from block to block. All are made as wide as the network by layers that see
 * the prompt alone. Queries and keys are normed over all heads at once, those of the picture carry
 * their row and column as rotations, and words stand where nothing turns. */
#ifndef GRAFT_MODELS_HIDREAM_H
#define GRAFT_MODELS_HIDREAM_H
#include "engine/graph/graph.h"
#include "engine/models/parts/arch.h"
#include "engine/models/parts/net_shape.h"

/* Inputs: x (N,channels,h,w), timesteps (N) of 0 to 1000, context (N,tokens,
 * graft_hidream_context()): of each token T5's numbers, then those of Llama's layers; and y
 * (N,pooled_dim), the pooled prompts of CLIP-L and CLIP-G. Output: (N,channels,h,w), of a flow as
 * SD 3's have it, which is what the network gives with its sign changed. h and w are multiples of
 * the patch. All tokens are seen, also those that fill a prompt up. Of the shape batch, height,
 * width, tokens and act_dtype count; all else must be zero, or GRAFT_E_UNSUPPORTED. */
graft_status graft_hidream_build(const graft_hidream_arch *a, const graft_net_shape *shape,
                                 graft_graph **out, graft_err *e);
/* A prompt has so many tokens of T5 and of Llama, or more: it was trained with no other number. */
#define GRAFT_HIDREAM_TOKENS 128
/* Layers of Llama 3.1 8B, which blocks read one by one; those behind that read the last again. */
#define GRAFT_HIDREAM_LLAMA_LAYERS 32
static inline int64_t graft_hidream_context(const graft_hidream_arch *a)
{
    return a->t5_dim + (int64_t)a->llama_layers * a->llama_dim;
}
#endif
