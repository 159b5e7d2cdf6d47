/* AuraFlow's transformer (fal and S. Ryu, 2024; authors' and diffusers' code are public under
 * Apache-2.0) as a graph: a rectified flow with blocks of two streams like Stable Diffusion 3's
 * (mmdit.h), then blocks of one. Before the prompt's tokens stand some that the model has learnt,
 * its registers (Darcet et al. 2023, arXiv:2309.16588). Queries and keys are normed without
 * weights, hardly a layer has a bias, MLPs have gates, and what a block adds is added to what it
 * began with: its MLP sees what attention found, the stream behind it does not. */
#ifndef GRAFT_MODELS_AURAFLOW_H
#define GRAFT_MODELS_AURAFLOW_H
#include "engine/graph/graph.h"
#include "engine/models/parts/arch.h"
#include "engine/models/parts/net_shape.h"

/* Inputs: x (N,channels,h,w), timesteps (N) of 0 to 1000, context (N,tokens,context_dim), and with
 * counted tokens y (N,1): how many of the prompt's are its own, behind which all are as if they
 * were not there. Output: (N + perturbed,channels,h,w), of a flow as SD 3's have it. h and w are
 * multiples of the patch, and within the table of positions. Of the shape batch, height, width,
 * tokens, act_dtype, perturbed and skip count; all else must be zero, or GRAFT_E_UNSUPPORTED. Rows
 * leave blocks out as in graft_mmdit_build(), those of one stream behind those of two. */
graft_status graft_auraflow_build(const graft_auraflow_arch *a, const graft_net_shape *shape,
                                  graft_graph **out, graft_err *e);
/* A prompt is filled up with zeros to so many tokens, which the network sees: it was trained with
 * no other. Longer ones are counted, so that they share graphs. */
#define GRAFT_AURAFLOW_TOKENS 256
static inline bool graft_auraflow_counts_tokens(int64_t tokens)
{
    return tokens > GRAFT_AURAFLOW_TOKENS;
}
#endif
