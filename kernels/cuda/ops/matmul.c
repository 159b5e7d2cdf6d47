#include "kernels/cuda/ops/matmul.h"

static uint32_t padded(int64_t k)
{
    return (uint32_t)((k + 7) / 8 * 8);
}

void graft_cuda_matmul_layout(graft_kernel *k, bool pairs)
{
    const graft_tensor_desc *w = &k->op.in[1], *b = &k->op.in[2];
    graft_cuda_layout l = {.rows = (uint32_t)w->dim[0],
                           .channels = (uint32_t)w->dim[1],
                           .taps = w->rank == 4 ? (uint32_t)(w->dim[2] * w->dim[3]) : 1,
                           .to = k->t,
                           .pairs = pairs,
                           .int4 = k->op.attrs.quant == GRAFT_QUANT_INT4,
                           .weight = true};
    l.ldw = padded((int64_t)l.channels * l.taps);
    graft_cuda_pack_as(k, 1, l);
    if (!graft_cuda_present(b)) return;
    graft_cuda_pack_as(k, 2,
                       (graft_cuda_layout){.rows = (uint32_t)b->dim[0],
                                           .channels = 1,
                                           .taps = 1,
                                           .ldw = 1,
                                           .to = k->t,
                                           .pairs = pairs});
}

void graft_cuda_matmul_conv(const graft_op_desc *op, graft_cuda_matmul *p)
{
    const graft_attrs *a = &op->attrs;
    const graft_tensor_desc *x = &op->in[GRAFT_CONV_X], *w = &op->in[GRAFT_CONV_W];
    *p = (graft_cuda_matmul){.m = (int32_t)(op->out.dim[0] * op->out.dim[1] * op->out.dim[2]),
                             .n = (int32_t)w->dim[0],
                             .k = (int32_t)(w->dim[1] * w->dim[2] * w->dim[3]),
                             .out_h = (int32_t)op->out.dim[1],
                             .out_w = (int32_t)op->out.dim[2],
                             .in_h = (int32_t)graft_cuda_seen_height(op),
                             .in_w = (int32_t)graft_cuda_seen_width(op),
                             .channels = (int32_t)x->dim[3],
                             .kernel_w = a->kernel_w,
                             .stride_h = a->stride_h,
                             .stride_w = a->stride_w,
                             .pad_top = a->pad_top,
                             .pad_left = a->pad_left,
                             .up = a->upsample == 2,
                             .act = a->act};
    p->ldw = (int32_t)padded(p->k);
    for (int i = 0; i < 3; i++) {
        p->sx[i] = x->stride[i];
        p->so[i] = op->out.stride[i];
        p->sr[i] = op->in[GRAFT_CONV_RESIDUAL].stride[i];
    }
    p->sadd = op->in[GRAFT_CONV_CHANNEL_ADD].stride[0];
}

void graft_cuda_matmul_linear(const graft_op_desc *op, graft_cuda_matmul *p)
{
    uint32_t dim[4];
    int64_t sx[4], so[4], sr[4] = {0};
    graft_cuda_shape(&op->out, dim, so);
    graft_cuda_shape(&op->in[GRAFT_LINEAR_X], NULL, sx);
    if (graft_cuda_present(&op->in[GRAFT_LINEAR_RESIDUAL]))
        graft_cuda_shape(&op->in[GRAFT_LINEAR_RESIDUAL], NULL, sr);
    *p = (graft_cuda_matmul){.m = (int32_t)(dim[0] * dim[1] * dim[2]),
                             .n = (int32_t)op->in[GRAFT_LINEAR_W].dim[0],
                             .k = (int32_t)op->in[GRAFT_LINEAR_W].dim[1],
                             .out_h = (int32_t)dim[1],
                             .out_w = (int32_t)dim[2],
                             .in_h = (int32_t)dim[1],
                             .in_w = (int32_t)dim[2],
                             .kernel_w = 1,
                             .stride_h = 1,
                             .stride_w = 1,
                             .geglu = op->attrs.act == GRAFT_ACT_GEGLU,
                             .act =
                                 op->attrs.act == GRAFT_ACT_GEGLU ? GRAFT_ACT_NONE : op->attrs.act};
    p->channels = p->k;
    p->ldw = (int32_t)padded(p->k);
    for (int i = 0; i < 3; i++) {
        p->sx[i] = sx[i];
        p->so[i] = so[i];
        p->sr[i] = sr[i];
    }
}

/* Large tiles reuse more of what they read; small ones keep more processors busy. */
static bool small_tiles(const graft_kernel *k, const graft_cuda_matmul *p)
{
    uint64_t large =
        (uint64_t)graft_cuda_blocks((uint64_t)p->m, 128) * graft_cuda_blocks((uint64_t)p->n, 128);
    return large < (uint64_t)k->d->processors;
}

const char *graft_cuda_matmul_name(const graft_kernel *k, const graft_cuda_matmul *p)
{
    if (k->t == GRAFT_F32) return "own f32 64x64";
    return small_tiles(k, p) ? "own mma 64x64" : "own mma 128x128";
}

graft_status graft_cuda_matmul_run(graft_kernel *k, graft_cuda_matmul *p)
{
    uint32_t tile = 64;
    graft_cuda_function f = GRAFT_CUDA_FN_graft_matmul_f32;
    bool f16 = k->t == GRAFT_F16;
    if (k->t != GRAFT_F32 && small_tiles(k, p)) {
        f = f16 ? GRAFT_CUDA_FN_graft_matmul_small_f16 : GRAFT_CUDA_FN_graft_matmul_small_bf16;
    } else if (k->t != GRAFT_F32) {
        f = f16 ? GRAFT_CUDA_FN_graft_matmul_large_f16 : GRAFT_CUDA_FN_graft_matmul_large_bf16;
        tile = 128;
    }
    p->vec = (uintptr_t)p->x % 16 == 0 && p->channels % 8 == 0 && p->sx[0] % 8 == 0 &&
             p->sx[1] % 8 == 0 && p->sx[2] % 8 == 0;
    return graft_cuda_launch(k->d, f, graft_cuda_blocks((uint64_t)p->m, tile),
                             graft_cuda_blocks((uint64_t)p->n, tile), 1, p);
}

graft_status graft_cuda_matmul_conv_run(graft_kernel *k, const graft_op_desc *op,
                                        const void *const *in, void *out)
{
    graft_cuda_matmul p;
    graft_cuda_matmul_conv(op, &p);
    p.x = in[GRAFT_CONV_X];
    p.w = in[GRAFT_CONV_W];
    p.bias = in[GRAFT_CONV_BIAS];
    p.channel_add = in[GRAFT_CONV_CHANNEL_ADD];
    p.residual = in[GRAFT_CONV_RESIDUAL];
    p.out = out;
    return graft_cuda_matmul_run(k, &p);
}
