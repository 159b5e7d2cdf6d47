/* Merges of models and text encoders. Part of engine.h, which includes this file. */
#ifndef GRAFT_ENGINE_MERGING_H
#define GRAFT_ENGINE_MERGING_H
#include <stdbool.h>
#include <stddef.h>

#include "engine/types.h"

/* Merges: a model whose weights are sums of two models' weights, tensor by tensor, each with its
 * LoRAs; all else (options, prediction, quantized layers) is a's. Nothing is computed by the call
 * and nothing compiled for the result: a tensor is summed up in float32 when it is first packed,
 * one at a time for each packing thread, so memory holds the result and not the parts. Merges of
 * merges are one sum of files: what cancels out is not read, and what is left of one file with a
 * factor of 1 has its very bits. LoRAs, swaps and options apply to the result as to any model; a
 * swap replaces all files of a merge and keeps the LoRAs, at the strengths that they have in it.
 * GRAFT_E_ARG when the architectures differ, naming the first tensor that does, and for factors
 * that are not finite or above 1e6. */

/* How much of `a` each part of the UNet has: `input` is for input_blocks and all that is in no
 * block (the embeddings of time and label), `middle` for middle_block, `out` for output_blocks and
 * out. */
typedef struct graft_merge_ratio {
    double input, middle, out;
} graft_merge_ratio;
/* ratio * a + (1 - ratio) * b */
graft_status graft_model_merge(const graft_model *a, const graft_model *b,
                               const graft_merge_ratio *ratio, graft_model **out, graft_err *e);
/* The same with a ratio for each part of any network. Names of tensors are those of checkpoints,
 * without the model's prefix; of several prefixes that fit the longest counts, and a tensor that
 * none fits has the first part's ratio. At least one part. */
typedef struct graft_merge_part {
    const char *prefix; /* "joint_blocks.3." */
    double ratio;       /* of `a` */
} graft_merge_part;
graft_status graft_model_merge_parts(const graft_model *a, const graft_model *b,
                                     const graft_merge_part *part, size_t n, graft_model **out,
                                     graft_err *e);
/* a + b */
graft_status graft_model_merge_add(const graft_model *a, const graft_model *b, graft_model **out,
                                   graft_err *e);
/* multiplier * (a - b) */
graft_status graft_model_merge_subtract(const graft_model *a, const graft_model *b,
                                        double multiplier, graft_model **out, graft_err *e);
/* The same for text encoders, each of a with that of b. */
graft_status graft_clip_merge(const graft_clip *a, const graft_clip *b, double ratio,
                              graft_clip **out, graft_err *e);
graft_status graft_clip_merge_add(const graft_clip *a, const graft_clip *b, graft_clip **out,
                                  graft_err *e);
graft_status graft_clip_merge_subtract(const graft_clip *a, const graft_clip *b, double multiplier,
                                       graft_clip **out, graft_err *e);

/* Factors of the weights and biases that give an attention its queries, keys and values, and of
 * those behind it: a merge of a model with itself, LoRAs included, so all that is said above holds.
 * Where there are no such layers nothing changes. */
typedef struct graft_attention_factors {
    double q, k, v, out;
} graft_attention_factors;
/* A UNet's attention of the picture to itself (attn1), or `cross`: to the prompt (attn2). */
graft_status graft_model_multiply_attention(const graft_model *m, bool cross,
                                            const graft_attention_factors *factors,
                                            graft_model **out, graft_err *e);
/* CLIP's encoders; T5 stays as it is. GRAFT_E_UNSUPPORTED where there is no CLIP. */
graft_status graft_clip_multiply_attention(const graft_clip *c,
                                           const graft_attention_factors *factors, graft_clip **out,
                                           graft_err *e);
#endif
