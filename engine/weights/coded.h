/* Weights in the formats that ComfyUI's tools quantize them to, and bitsandbytes (bitsandbytes.h).
 * Of the former a layer X says how its X.weight lies in X.comfy_quant, a JSON object in bytes, or
 * among the "layers" of the file's metadata
 * "_quantization_metadata":
 *
 *   int8_tensorwise   I8; X.weight_scale, one number or one for each row, times each level. With
 *                     "convrot" each "convrot_groupsize" (256) values of a row were multiplied by
 *                     a Hadamard matrix (kernels/hadamard.h; arXiv:2512.03673)
 *   convrot_w4a4      two levels of -8 … 7 a byte, the first in the low half; else as above, with
 *                     "convrot" always. Also called int4_tensorwise
 *   float8_e4m3fn, float8_e5m2, float8_e4m3fn_rowwise
 *                     F8_E4M3 or F8_E5M2; X.weight_scale for each row. Those with one for all are
 *                     scaled.h's
 *   mxfp8             F8_E4M3; X.weight_scale, a power of two for each 32 values of a row (OCP
 *                     Microscaling Formats 1.0), in bytes with 127 added
 *   nvfp4             two E2M1 a byte, the first in the high half; X.weight_scale in F8_E4M3 for
 *                     each 16 values of a row, and X.weight_scale_2 for all
 *
 * Scales of blocks lie as cuBLAS wants them: tiles of 128 rows and 4 blocks, of which row r, block
 * b is at r % 32 * 16 + r / 32 * 4 + b.
 *
 * All of them are weights as others: values are computed when they are loaded. Integers can also be
 * multiplied as they are, as LINEAR's GRAFT_Q8. */
#ifndef GRAFT_WEIGHTS_CODED_H
#define GRAFT_WEIGHTS_CODED_H
#include <stdbool.h>
#include <stdint.h>

#include "base/hash.h"
#include "kernels/op_desc.h"

#define GRAFT_CODED_MAP 256 /* what a byte can stand for */

typedef enum graft_coded_form { /* numbers are stable: they go into names of content */
                                GRAFT_CODED_INT8 = 1,
                                GRAFT_CODED_INT4 = 2,
                                GRAFT_CODED_FP8 = 3,
                                GRAFT_CODED_MXFP8 = 4,
                                GRAFT_CODED_NVFP4 = 5,
                                GRAFT_CODED_NF4 = 6,
                                GRAFT_CODED_FP4 = 7
} graft_coded_form;

/* How one tensor's values lie. It points into the file. */
typedef struct graft_coded {
    graft_coded_form form;
    graft_dtype dtype;     /* of FP8: E4M3 or E5M2 */
    int64_t rows, columns; /* columns: values of a row, all dimensions but the first */
    const void *scale;
    graft_dtype scale_dtype;
    uint64_t scale_bytes;
    int64_t scales;   /* INT8, INT4, FP8: 1, or one a row; NF4, FP4: one a block */
    float whole;      /* NVFP4: what all values count, too */
    int32_t hadamard; /* rows are turned in groups of so many; 0: they are not */
    bool floats;      /* its maker wants activations in floats, not in integers */
    /* NF4, FP4: values of a block, which may go on into the next row; the last one may be short. */
    int64_t block;
    /* The same where scales are bytes themselves: scale i is map[byte i] * nested[i / nested_block]
     * + offset, in float32 and in that order. Float32 at any alignment; NULL: scales are floats. */
    const void *map, *nested;
    int64_t nested_block, nested_scales;
    float offset;
} graft_coded;

/* Values first .. first + n, rows end to end; neither needs to be the edge of anything. */
void graft_coded_to_f32(const graft_coded *c, const void *data, int64_t first, int64_t n,
                        float *out);
/* Whether its levels are those of GRAFT_Q8 for rows that are turned in such groups. */
bool graft_coded_has_levels(const graft_coded *c, int32_t hadamard);
/* These levels: rows * columns bytes, and a scale for each row. */
void graft_coded_levels(const graft_coded *c, const void *data, int8_t *level, float *scale);
/* Of NF4 and FP4: all its scales, c->scales of them. */
void graft_coded_scales(const graft_coded *c, float *out);
/* Whether it can be a weight of kernels/blocks.h, as all but integers are: of NF4 and FP4 those
 * whose rows are whole blocks of 64 values, and their own blocks multiples of that. */
bool graft_coded_has_blocks(const graft_coded *c);
/* Its blocks, and what a row's values count besides. */
void graft_coded_blocks(const graft_coded *c, const void *data, uint8_t *blocks);
float graft_coded_row_scale(const graft_coded *c, int64_t row);
/* Whether one of the scales is known not to be finite; looks at those of NF4 and FP4 only. */
bool graft_coded_non_finite(const graft_coded *c);
/* Names the format and its scales: all of them, or with `few` some. */
graft_hash graft_coded_mix(graft_hash h, const graft_coded *c, bool few);
#endif
