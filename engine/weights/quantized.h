/* Quantized weights in safetensors files.
 *
 * The metadata has "graft.quantized": "1". A quantized tensor X.weight lies as
 *   8 bits: X.weight I8 or F8_E4M3 in its own shape (O,...), then X.weight_scale F32 (O);
 *   4 bits: X.weight U8 (O, 32 G), then X.weight_scale F32 (O, G), and anywhere X.weight_shape I64
 *           with the 2 to 4 sizes of the weight; G = ceil(values of an output / 64).
 * Values are those of kernels/quant.h. The scale's data follows the weight's at once, so that both
 * are one block of GRAFT_Q8, GRAFT_QF8 or GRAFT_Q4. A file has one kind only. In files of
 * F8_E4M3 "graft.quantized.tensors" counts them, since a tensor without a scale may be meant.
 * "graft.quantized.attention" names the UNet's attentions that are quantized
 * (engine/quant/layers.h), joined by commas; without it none is. */
#ifndef GRAFT_WEIGHTS_QUANTIZED_H
#define GRAFT_WEIGHTS_QUANTIZED_H
#include <stdbool.h>

#include "kernels/op_desc.h"

#define GRAFT_QUANTIZED_KEY       "graft.quantized"
#define GRAFT_QUANTIZED_VERSION   "1"
#define GRAFT_QUANTIZED_COUNT     "graft.quantized.tensors"
#define GRAFT_QUANTIZED_ATTENTION "graft.quantized.attention"

static inline bool graft_is_quantized(graft_dtype t)
{
    return t == GRAFT_Q8 || t == GRAFT_Q4 || t == GRAFT_QF8;
}

/* Bytes of the values, without scales, of `outputs` rows of n. */
uint64_t graft_quantized_level_bytes(graft_dtype t, int64_t outputs, int64_t n);
/* All bytes. */
uint64_t graft_quantized_bytes(graft_dtype t, int64_t outputs, int64_t n);
/* out: outputs * n values. */
void graft_quantized_to_f32(graft_dtype t, const void *data, int64_t outputs, int64_t n,
                            float *out);
/* The other way; out: graft_quantized_bytes(), aligned to 4. */
void graft_quantized_from_f32(graft_dtype t, const float *values, int64_t outputs, int64_t n,
                              void *out);
#endif
