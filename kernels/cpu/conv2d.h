/* What the ways to compute CONV2D share. */
#ifndef GRAFT_KERNELS_CPU_CONV2D_H
#define GRAFT_KERNELS_CPU_CONV2D_H
#include "kernels/cpu/primitive.h"

extern const graft_cpu_op graft_cpu_op_conv2d_winograd, graft_cpu_op_conv2d_tiles;
/* Whether matrix instructions of our own can do this sound convolution. */
bool graft_cpu_has_conv2d_tiles(const graft_device *d, const graft_op_desc *op);
/* The layout of the packed weight of any of them in floats, and which of its dimensions counts
 * outputs. */
const dnnl_memory_desc_t *graft_cpu_conv2d_layout(const graft_kernel *k, int *output_dim);
/* Those of two of them. */
const dnnl_memory_desc_t *graft_cpu_conv2d_tiles_layout(const graft_kernel *k);
const dnnl_memory_desc_t *graft_cpu_winograd_layout(const graft_kernel *k);
/* Whether Winograd can do this sound convolution. */
int graft_cpu_has_winograd(const graft_op_desc *op);
/* Whether it can, and is the faster way as far as shapes tell. */
int graft_cpu_prefers_winograd(const graft_op_desc *op);

/* The first of oneDNN's convolutions for `cd`, which describes `op`, that computes it right.
 * *passed: better ones were passed over. */
dnnl_status_t graft_cpu_conv2d_create(graft_device *d, const graft_op_desc *op,
                                      const dnnl_convolution_desc_t *cd,
                                      const_dnnl_primitive_attr_t attr, dnnl_primitive_desc_t *pd,
                                      bool *passed);

/* The input's size as the convolution sees it: doubled with upsample 2. */
static inline void graft_cpu_conv2d_input_size(const graft_op_desc *op, int64_t *height,
                                               int64_t *width)
{
    const graft_tensor_desc *x = &op->in[GRAFT_CONV_X];
    int doubled = op->attrs.upsample == 2;
    *height = doubled ? (op->attrs.up_h ? op->attrs.up_h : 2 * x->dim[1]) : x->dim[1];
    *width = doubled ? (op->attrs.up_w ? op->attrs.up_w : 2 * x->dim[2]) : x->dim[2];
}

/* channel_add, residual and act on the n values at `to`, of dtype t, which are those from channel
 * at[3] on of pixel (at[0], at[1], at[2]). add: float32 rows of channel_add, or NULL; residual: the
 * tensor's data, or NULL. */
static inline void graft_cpu_conv2d_epilogue(const graft_kernel *k, const int64_t at[4], int64_t n,
                                             const float *add, const void *residual, void *to,
                                             graft_dtype t)
{
    const graft_tensor_desc *r = &k->op.in[GRAFT_CONV_RESIDUAL];
    if (!add && !residual && !k->op.attrs.act) return;
    if (residual)
        residual = graft_cpu_at(residual, r->dtype,
                                at[0] * r->stride[0] + at[1] * r->stride[1] + at[2] * r->stride[2] +
                                    at[3]);
    if (add) add += at[0] * k->op.out.dim[3] + at[3];
    k->d->simd->epilogue(k->op.attrs.act, to, t, add, residual, r->dtype, (size_t)n);
}
#endif
