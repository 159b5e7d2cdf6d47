/* FLUX.1 Redux (Black Forest Labs, 2024) as a graph: two layers that make of the tokens of a
 * picture, as SigLIP gives them, what FLUX reads beside the prompt's. */
#ifndef GRAFT_MODELS_REDUX_H
#define GRAFT_MODELS_REDUX_H
#include "engine/graph/graph.h"
#include "engine/models/parts/arch.h"

/* Input: (1,tokens,seen) float32. Output: (1,tokens,width). */
graft_status graft_redux_build(const graft_redux_arch *a, int64_t tokens, graft_dtype act_dtype,
                               graft_graph **out, graft_err *e);
#endif
