/* The encoder of T5, version 1.1 (Raffel et al. 2020, arXiv:1910.10683; gated GELU: Shazeer 2020,
 * arXiv:2002.05202), as a graph: the third text encoder of Stable Diffusion 3. And UMT5's (Chung et
 * al. 2023, arXiv:2304.09151), of which Pile-T5 is one, AuraFlow's: each layer has a bias of its
 * own there.
 *
 * Norms are RMS norms in front of attention and of the gated layers, there are no biases but that
 * of attention's scores, which depends on how far apart two tokens are, and scores are not scaled.
 * Token embeddings are looked up by the caller, straight from the mapped table. So is T5's bias
 * made by the caller; those of UMT5's layers, which would take as much memory each, are looked up
 * where they are read. */
#ifndef GRAFT_MODELS_T5_H
#define GRAFT_MODELS_T5_H
#include "engine/graph/graph.h"
#include "engine/models/parts/arch.h"

#define GRAFT_T5_MAX_TOKENS 1024 /* of one text: the bias has their square for each head */

typedef struct graft_t5_shape {
    int64_t batch, tokens;
    /* GRAFT_F32 or GRAFT_BF16: T5's activations leave the range of float16. The stream that the
     * layers add to is float32 in both: it grows to tens of thousands, where bfloat16 would lose
     * what most of them add. */
    graft_dtype act_dtype;
    int32_t zero; /* so that equal shapes are equal bytes */
} graft_t5_shape;

/* Inputs: embeddings (N,T,width) float32; bias (heads,T,T) float32, of query and key, or of UMT5
 * buckets (T,T) int32, likewise. Output: hidden (N,T,width) float32, normed. All T tokens are
 * attended to, padding among them. */
graft_status graft_t5_build(const graft_t5_arch *a, const graft_t5_shape *shape, graft_graph **out,
                            graft_err *e);

/* Names of the tokens' table (vocab,width), and of the one that the bias comes from
 * (buckets,heads). Static. */
const char *graft_t5_embeddings_name(const graft_t5_arch *a);
const char *graft_t5_bias_name(void);
/* The row of that table for a key so many tokens behind the query (before it: below 0), after the
 * paper's section 2.1 and its public code: half of the buckets for either direction; of a half, the
 * first half for one distance each, the rest for distances up to 128 in equal steps of their
 * logarithm, the last for all beyond. */
int32_t graft_t5_bucket(int32_t buckets, int64_t distance);
/* The buckets (tokens,tokens). */
void graft_t5_buckets(const graft_t5_arch *a, int64_t tokens, int32_t *out);
/* The bias (heads,tokens,tokens) from the table's values. Those behind the first `words` are not
 * attended to, not even by themselves. */
void graft_t5_bias(const graft_t5_arch *a, const float *table, int64_t words, int64_t tokens,
                   float *out);
#endif
