/* What LINEAR and CONV2D of 8 bits, integers or FP8, share on the host, and how weights of 8 and 4
 * bits are packed (kernels/quant.h).
 *
 * 8 bits: rows of levels as a product reads them, each tap's channels padded to 16, then a float32
 * scale a row. 4 bits: GRAFT_Q4 as it is, and so are blocks. */
#ifndef GRAFT_KERNELS_CUDA_QUANT_H
#define GRAFT_KERNELS_CUDA_QUANT_H
#include "kernels/cuda/libs/dnn.h"
#include "kernels/cuda/ops/op.h"

/* What no product of levels can do here: sums that leave 32 bits, a weight that is not constant. */
graft_status graft_cuda_int8_check(const graft_op_desc *op, graft_err *e);
/* Channels (or K) padded to what rows of levels need. */
static inline int64_t graft_cuda_int8_padded(int64_t channels)
{
    return (channels + 15) / 16 * 16;
}
/* Takes `bytes` of a workspace; returns where they begin. */
static inline uint64_t graft_cuda_reserve(uint64_t *end, uint64_t bytes)
{
    uint64_t at = *end;
    *end += (bytes + GRAFT_CUDA_ALIGN - 1) / GRAFT_CUDA_ALIGN * GRAFT_CUDA_ALIGN;
    return at;
}

/* What a level of k is: GRAFT_I8 or GRAFT_F8_E4M3. */
static inline graft_dtype graft_cuda_level(const graft_op_desc *op)
{
    return op->attrs.quant == GRAFT_QUANT_FP8 ? GRAFT_F8_E4M3 : GRAFT_I8;
}
/* Weight and bias of k: levels, float32. pairs: for GEGLU. */
void graft_cuda_int8_layout(graft_kernel *k, bool pairs);
/* Whether a constant of this layout is quantized, and from what it can be packed. */
static inline bool graft_cuda_is_quantized(const graft_cuda_layout *l)
{
    return l->int4 || l->blocks || l->to == GRAFT_I8 || l->to == GRAFT_F8_E4M3;
}
/* Where the scales of k's packed weight are. */
const float *graft_cuda_int8_scales(const graft_kernel *k, const void *packed);
/* From `raw` on the device, floats or (for 8 bits) GRAFT_Q8 or GRAFT_QF8; of blocks Q8_0 alone. */
graft_status graft_cuda_quant_pack(graft_device *d, const graft_cuda_layout *l, graft_dtype from,
                                   const void *raw, void *dst);
/* Bytes of a constant in dtype `from`. */
uint64_t graft_cuda_source_bytes(const graft_cuda_layout *l, graft_dtype from);

/* Rows of x to levels and scales. */
graft_status graft_cuda_quantize_rows(const graft_kernel *k, const graft_tensor_desc *x,
                                      const void *data, int8_t *level, float *scale);
enum { GRAFT_CUDA_NORMED_ROW = 2048 }; /* the longest that graft_cuda_norm_rows() takes */
/* The same of rows that are normed first, as by LAYER_NORM; gamma and beta as float32. */
graft_status graft_cuda_norm_rows(const graft_kernel *k, const graft_tensor_desc *x,
                                  const void *data, const void *gamma, const void *beta,
                                  int8_t *level, float *scale);
enum { GRAFT_CUDA_TURNED_ROW = 32768 }; /* the longest that graft_cuda_turn_rows() takes */
/* The same of rows that are multiplied by the Hadamard matrix of size attrs.groups (hadamard.h);
 * with a gamma, normed before that: of at most GRAFT_CUDA_NORMED_ROW values then. */
graft_status graft_cuda_turn_rows(const graft_kernel *k, const graft_tensor_desc *x,
                                  const void *data, const void *gamma, const void *beta,
                                  int8_t *level, float *scale);
/* Pictures of x likewise, doubled when `doubled` says so: `copies` of its scale for each. most:
 * room for GRAFT_CUDA_QUANT_SPLITS floats a picture. */
graft_status graft_cuda_quantize_pictures(const graft_kernel *k, const graft_tensor_desc *x,
                                          const void *data, const int64_t *doubled, int8_t *level,
                                          float *scale, uint32_t copies, float *most);

/* The own product; the shape part of p is set, and what is added besides the bias. The levels and
 * scales of x are in the workspace. */
const char *graft_cuda_int8_name(const graft_kernel *k, const graft_cuda_matmul *p);
graft_status graft_cuda_int8_run(graft_kernel *k, graft_cuda_int8 *p, const void *const *in,
                                 void *out, const char *ws);
/* Rows of levels of `channels` each (padded) where the operator reads x, dense as (N, h, w, C). */
void graft_cuda_int8_levels(graft_cuda_matmul *p, int64_t channels, int64_t h, int64_t w);
#endif
