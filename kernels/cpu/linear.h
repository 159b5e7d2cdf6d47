/* What the ways to compute LINEAR share. */
#ifndef GRAFT_KERNELS_CPU_LINEAR_H
#define GRAFT_KERNELS_CPU_LINEAR_H
#include "kernels/cpu/primitive.h"

extern const graft_cpu_op graft_cpu_op_linear_panels;
/* Whether this sound operator can run by panels (simd.h, product), which is then the faster way. */
bool graft_cpu_has_panels(const graft_device *d, const graft_op_desc *op);
/* The layout of the packed weight of any of them in floats, and which of its dimensions counts
 * outputs. */
const dnnl_memory_desc_t *graft_cpu_linear_layout(const graft_kernel *k, int *output_dim);
/* That of panels. */
const dnnl_memory_desc_t *graft_cpu_panels_layout(const graft_kernel *k);
#endif
