#include "kernels/cuda/ops/conv2d_corners.h"

#include <stdio.h>
#include <string.h>

#include "kernels/cuda/libs/dnn.h"
#include "kernels/cuda/ops/matmul.h"
#include "kernels/cuda/ops/quant.h"

/* The small convolution, into a dense result. */
static graft_op_desc small_desc(const graft_op_desc *op)
{
    graft_op_desc d = *op;
    graft_tensor_desc *w = &d.in[GRAFT_CONV_W], *y = &d.out;
    memset(&d.in[GRAFT_CONV_CHANNEL_ADD], 0, sizeof d.in[0]);
    d.attrs.act = GRAFT_ACT_NONE;
    d.attrs.upsample = d.attrs.up_h = d.attrs.up_w = 0;
    d.attrs.kernel_h = d.attrs.kernel_w = 2;
    w->dim[0] *= 4;
    w->dim[2] = w->dim[3] = 2;
    w->stride[2] = 2;
    w->stride[1] = 4;
    w->stride[0] = 4 * w->dim[1];
    if (graft_cuda_present(&d.in[GRAFT_CONV_BIAS])) d.in[GRAFT_CONV_BIAS].dim[0] *= 4;
    y->dim[1] = op->in[GRAFT_CONV_X].dim[1] + 1;
    y->dim[2] = op->in[GRAFT_CONV_X].dim[2] + 1;
    y->dim[3] *= 4;
    y->stride[2] = y->dim[3];
    y->stride[1] = y->dim[2] * y->stride[2];
    y->stride[0] = y->dim[1] * y->stride[1];
    return d;
}

static bool fits(const graft_kernel *k)
{
    const graft_attrs *a = &k->op.attrs;
    const graft_tensor_desc *x = &k->op.in[GRAFT_CONV_X], *w = &k->op.in[GRAFT_CONV_W];
    const graft_tensor_desc *y = &k->op.out;
    const graft_op_desc d = small_desc(&k->op);
    return k->t != GRAFT_F32 && a->upsample == 2 && a->up_h == 2 * x->dim[1] &&
           a->up_w == 2 * x->dim[2] && w->dim[2] == 3 && w->dim[3] == 3 && a->stride_h == 1 &&
           a->stride_w == 1 && a->pad_top == 1 && a->pad_left == 1 && a->pad_bottom == 1 &&
           a->pad_right == 1 && w->dim[0] % 8 == 0 && w->dim[1] % 8 == 0 &&
           !graft_cuda_present(&k->op.in[GRAFT_CONV_RESIDUAL]) && y->stride[0] % 8 == 0 &&
           y->stride[1] % 8 == 0 && y->stride[2] % 8 == 0 && w->dim[0] * 4 / 64 <= 65535 &&
           d.out.dim[0] * d.out.stride[0] <= INT32_MAX - 1024;
}

static void lay_out(graft_kernel *k)
{
    const graft_tensor_desc *w = &k->op.in[GRAFT_CONV_W];
    graft_cuda_layout l = {.rows = (uint32_t)w->dim[0],
                           .channels = (uint32_t)w->dim[1],
                           .taps = 9,
                           .ldw = 16 * (uint32_t)w->dim[1],
                           .to = k->t,
                           .weight = true,
                           .corners = true};
    graft_cuda_pack_as(k, GRAFT_CONV_W, l);
    if (!graft_cuda_present(&k->op.in[GRAFT_CONV_BIAS])) return;
    l.channels = l.taps = 1;
    l.ldw = 4;
    l.weight = false;
    graft_cuda_pack_as(k, GRAFT_CONV_BIAS, l);
}

int32_t graft_cuda_corners_init(graft_kernel *k, int32_t variant, int32_t first)
{
    graft_cuda_matmul p;
    int32_t count = 0, index = variant >= first ? variant - first : -1;
    if (!fits(k)) return 0;
    const graft_op_desc d = small_desc(&k->op);
    if (k->d->dnn)
        graft_cuda_dnn_conv(k->d->dnn, &d, index, index < 0 ? NULL : &k->dnn, &count, NULL);
    if (index < 0 || index > count) return count + 1;
    uint64_t end = 0;
    graft_cuda_reserve(&end, (uint64_t)(d.out.dim[0] * d.out.stride[0]) * graft_dtype_size(k->t));
    k->part = end;
    graft_cuda_reserve(&end, k->dnn ? graft_cuda_dnn_workspace(k->dnn) : 0);
    k->info.workspace_bytes = end;
    k->info.variant_index = variant;
    k->corners = true;
    lay_out(k);
    char name[48];
    graft_cuda_matmul_conv(&d, &p);
    snprintf(name, sizeof name, "%s", graft_cuda_matmul_name(k, &p));
    if (k->dnn) graft_cuda_dnn_name(k->dnn, name, sizeof name);
    snprintf(k->info.variant, sizeof k->info.variant, "corners, %s", name);
    return count + 1;
}

/* Each corner's channels to its four pixels. */
static graft_status spread(graft_kernel *k, const void *corners, void *out)
{
    const graft_tensor_desc *y = &k->op.out;
    graft_cuda_corners p = {.src = corners,
                            .dst = out,
                            .sd = {y->stride[0], y->stride[1], y->stride[2]},
                            .eights = (uint32_t)y->dim[3] / 8,
                            .out_h = (uint32_t)y->dim[1],
                            .out_w = (uint32_t)y->dim[2],
                            .vec = (uintptr_t)out % 16 == 0};
    p.count = (uint32_t)(y->dim[0] * y->dim[1] * y->dim[2]) * p.eights;
    return graft_cuda_launch(k->d, GRAFT_CUDA_FN_graft_corners,
                             graft_cuda_blocks(p.count, GRAFT_CUDA_THREADS), 1, 1, &p);
}

static graft_status own(graft_kernel *k, const void *const *in, void *corners)
{
    const graft_op_desc d = small_desc(&k->op);
    const void *const all[GRAFT_MAX_INPUTS] = {[GRAFT_CONV_X] = in[GRAFT_CONV_X],
                                               [GRAFT_CONV_W] = in[GRAFT_CONV_W],
                                               [GRAFT_CONV_BIAS] = in[GRAFT_CONV_BIAS]};
    return graft_cuda_matmul_conv_run(k, &d, all, corners);
}

graft_status graft_cuda_corners_run(graft_kernel *k, const void *const *in, void *out,
                                    char *workspace)
{
    const void *const data[] = {in[GRAFT_CONV_X], in[GRAFT_CONV_W], workspace, NULL,
                                in[GRAFT_CONV_BIAS]};
    graft_status st = GRAFT_E_UNSUPPORTED;
    if (k->dnn && !k->refused && graft_cuda_aligned(in, 5, NULL)) {
        st = graft_cuda_dnn_run(k->d, k->dnn, data, 5, workspace + k->part);
        k->refused = st == GRAFT_E_UNSUPPORTED;
    }
    if (st == GRAFT_E_UNSUPPORTED) st = own(k, in, workspace);
    return st ? st : spread(k, workspace, out);
}
