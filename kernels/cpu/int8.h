/* What int8 LINEAR and CONV2D share (kernels/quant.h) where oneDNN multiplies int8 by int8 into
 * int32: everything around that. A packed weight is oneDNN's layout, then a scale per output. */
#ifndef GRAFT_KERNELS_CPU_INT8_H
#define GRAFT_KERNELS_CPU_INT8_H
#include "kernels/cpu/primitive.h"

uint64_t graft_cpu_int8_bytes(const dnnl_memory_desc_t *md, int64_t outputs);
uint64_t graft_cpu_int8_packing(const dnnl_memory_desc_t *md, int output_dim);
const float *graft_cpu_int8_scales(const dnnl_memory_desc_t *md, const void *packed);
/* Dense (O, I...) source; O is dimension `output_dim` of md. */
graft_status graft_cpu_int8_pack(graft_device *d, const dnnl_memory_desc_t *md, int output_dim,
                                 graft_dtype from, const void *src, void *dst);

/* Weights' levels; `own` is to be freed. */
typedef struct graft_cpu_int8_levels {
    const int8_t *level;
    void *own; /* NULL: they were quantized already */
} graft_cpu_int8_levels;
/* `outputs` rows of n values, dense; their scales are written. Of FP8 they are the bytes. */
graft_status graft_cpu_int8_levels_of(graft_device *d, graft_quant quant, graft_dtype from,
                                      const void *src, int64_t outputs, int64_t n, float *scale,
                                      graft_cpu_int8_levels *out);

/* A row of LINEAR's input as it is to be quantized: turned, where the operator has groups, into
 * `turned`, for which each thread has graft_cpu_int8_turned(), 0 where nothing is. */
typedef struct graft_cpu_int8_row {
    const void *x;
    graft_dtype type;
} graft_cpu_int8_row;
size_t graft_cpu_int8_turned(const graft_op_desc *op); /* bytes */
graft_cpu_int8_row graft_cpu_int8_row_of(const graft_kernel *k, const void *x, float *turned);

/* The largest |value| of a picture of x (N,H,W,C), found by all threads. each: scratch. */
#define GRAFT_CPU_INT8_PARTS 64
float graft_cpu_int8_most(const graft_device *d, const graft_tensor_desc *x, const void *picture,
                          float each[GRAFT_CPU_INT8_PARTS]);

/* Rows of int32 sums to rows of the output: scales, bias, channel_add, residual, act or GEGLU. */
typedef struct graft_cpu_int8_rows {
    const graft_kernel *k;
    int32_t *acc; /* dense; overwritten */
    int64_t first, count, wide;
    const float *weight_scale; /* one an output */
    const float *input_scale;  /* one for each `rows_per_scale` rows */
    int64_t rows_per_scale;
    const float *bias, *channel; /* NULL: none; channel: a row for each `rows_per_scale` rows */
    const void *residual;        /* NULL: none */
    const graft_tensor_desc *residual_desc;
    void *out;
} graft_cpu_int8_rows;
void graft_cpu_int8_finish(const graft_cpu_int8_rows *r);
#endif
