/* The adapter of Anima's network, which its file calls llm_adapter, and the attention that both are
 * made of. The network was trained with what T5 makes of a prompt's words. The adapter has a table
 * of T5's words in its place, and a few blocks in which they attend to each other and then to the
 * tokens of Qwen 3, each at its number in its own row (arXiv:2104.09864). It gives as many tokens
 * as T5 was asked for, zeros behind those of the prompt, which the network attends to as well.
 *
 * It depends on the prompt alone, so it is computed once in a sampling (exec/invariants.h). One
 * thread at a time per graph; failures stay in the graph (graph.h). */
#ifndef GRAFT_MODELS_ANIMA_ADAPTER_H
#define GRAFT_MODELS_ANIMA_ADAPTER_H
#include "engine/models/parts/arch.h"
#include "engine/models/parts/build.h"

/* Words of a prompt, those that fill it up among them. */
#define GRAFT_ANIMA_WORDS 512
/* What a network is told of them: T5's numbers of the words, then by how much what the adapter
 * makes of each is multiplied, 0 behind the prompt's own; then how many these are, at least 1. */
#define GRAFT_ANIMA_TOLD (2 * GRAFT_ANIMA_WORDS + 1)

/* (N,GRAFT_ANIMA_WORDS,adapter_width) of context (N,tokens,context_dim) and y
 * (N,GRAFT_ANIMA_TOLD + 1), which ends with the number of tokens that count, at least 1. */
graft_vid graft_anima_adapt(const graft_build *b, const graft_anima_arch *a, graft_vid context,
                            graft_vid y);

typedef struct graft_anima_attention {
    const char *name, *out; /* of the layer, and below it of what its values go through */
    int32_t width, heads;   /* width: of queries, and of what comes out */
    /* Where the two sides stand; NULL: nowhere. */
    const graft_rope_grid *query, *key;
    graft_vid count; /* (N) int32: how many of those that are seen count; GRAFT_NO_VALUE: all */
} graft_anima_attention;
/* What x (N,T,width) attends to of `seen` (N,S,any width). */
graft_vid graft_anima_attend(const graft_build *b, const graft_anima_attention *a, graft_vid x,
                             graft_vid seen);
#endif
