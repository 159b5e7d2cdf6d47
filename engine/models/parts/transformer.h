/* What all diffusion transformers ask of the shape of a graph, which is a UNet's first of all
 * (net_shape.h). Failures stay in the graph (graph.h), of which the first is kept. */
#ifndef GRAFT_MODELS_TRANSFORMER_H
#define GRAFT_MODELS_TRANSFORMER_H
#include "engine/models/parts/net_shape.h"

/* The latent is a whole number of squares of `patch` cells a side. */
void graft_transformer_check_patches(graft_graph *g, const graft_net_shape *s, int32_t patch);
/* It is at most `most` of them high and wide. */
void graft_transformer_check_side(graft_graph *g, const graft_net_shape *s, int32_t patch,
                                  int32_t most);
/* It is within a table of the positions of `side` squares a side. */
void graft_transformer_check_table(graft_graph *g, const graft_net_shape *s, int32_t patch,
                                   int32_t side);
/* A prompt has from `step` to `most` tokens, in whole steps. */
void graft_transformer_check_tokens(graft_graph *g, const graft_net_shape *s, int32_t step,
                                    int32_t most);
/* float16 does not hold the values of `name`. */
void graft_transformer_check_wide(graft_graph *g, const graft_net_shape *s, const char *name);
/* Perturbed rows are among the batch's, and leave out some of so many blocks. */
void graft_transformer_check_skipped(graft_graph *g, const graft_net_shape *s, int32_t blocks);
/* Whether perturbed rows leave out this block, or all rows do where there are none. */
static inline bool graft_transformer_skips(const graft_net_shape *s, int block)
{
    return block < 64 && s->skip >> block & 1;
}
/* Nothing is asked for that only a UNet has, nor, as `more` says, what this one lacks besides. */
void graft_transformer_check_unchanged(graft_graph *g, const graft_net_shape *s, bool more);
#endif
