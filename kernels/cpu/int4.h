/* Weights of 4 bits (kernels/quant.h): they stay packed in memory, and are unpacked into the layout
 * that oneDNN wants just ahead of a multiplication of floats. */
#ifndef GRAFT_KERNELS_CPU_INT4_H
#define GRAFT_KERNELS_CPU_INT4_H
#include "kernels/cpu/primitive.h"

#define GRAFT_CPU_PACKING_INT4 0x696e7434u /* the layout of packed weights */

/* `count` rows of a packed weight from `first` on, then rows from `second` on. */
typedef struct graft_cpu_rows4 {
    const uint8_t *level; /* the whole weight */
    const float *scale;
    int64_t first, count, second;
} graft_cpu_rows4;

/* From packed rows to a layout (pack_quantized.c). UNSUPPORTED for layouts that are not known. */
typedef struct graft_cpu_place4 graft_cpu_place4;
graft_status graft_cpu_place4_create(graft_device *d, const dnnl_memory_desc_t *md, int output_dim,
                                     graft_cpu_place4 **out);
void graft_cpu_place4_destroy(graft_device *d, graft_cpu_place4 *p); /* NULL is fine */
size_t graft_cpu_place4_workspace(const graft_device *d, const graft_cpu_place4 *p);
/* [any] Writes all of the layout's outputs; allocates nothing. */
void graft_cpu_place4_run(const graft_device *d, const graft_cpu_place4 *p,
                          const graft_cpu_rows4 *rows, void *dst, void *workspace);

/* The layout of a float kernel's packed weight, and which of its dimensions counts outputs. */
const dnnl_memory_desc_t *graft_cpu_linear_layout(const graft_kernel *k, int *output_dim);
const dnnl_memory_desc_t *graft_cpu_conv2d_layout(const graft_kernel *k, int *output_dim);
#endif
