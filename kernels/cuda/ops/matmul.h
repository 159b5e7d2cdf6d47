/* CONV2D and LINEAR by the own kernels: the two are one product (params.h). */
#ifndef GRAFT_KERNELS_CUDA_MATMUL_H
#define GRAFT_KERNELS_CUDA_MATMUL_H
#include "kernels/cuda/ops/op.h"

/* The kernel, its tile, and the shape part of p; pointers are set by graft_cuda_matmul_run(). */
void graft_cuda_matmul_conv(const graft_op_desc *op, graft_cuda_matmul *p);
void graft_cuda_matmul_linear(const graft_op_desc *op, graft_cuda_matmul *p);
/* Name of the kernel that would run. */
const char *graft_cuda_matmul_name(const graft_kernel *k, const graft_cuda_matmul *p);
graft_status graft_cuda_matmul_run(graft_kernel *k, graft_cuda_matmul *p);
/* A convolution of op's shape by the own kernel; in: its inputs, NULL for absent ones. */
graft_status graft_cuda_matmul_conv_run(graft_kernel *k, const graft_op_desc *op,
                                        const void *const *in, void *out);
/* Weights in rows that kernels read 16 bytes at a time, and their bias. pairs: for GEGLU. */
void graft_cuda_matmul_layout(graft_kernel *k, bool pairs);
/* Height and width of CONV2D's x as the taps see it. */
static inline int64_t graft_cuda_seen_height(const graft_op_desc *op)
{
    return op->attrs.upsample == 2 ? op->attrs.up_h : op->in[GRAFT_CONV_X].dim[1];
}
static inline int64_t graft_cuda_seen_width(const graft_op_desc *op)
{
    return op->attrs.upsample == 2 ? op->attrs.up_w : op->in[GRAFT_CONV_X].dim[2];
}
#endif
