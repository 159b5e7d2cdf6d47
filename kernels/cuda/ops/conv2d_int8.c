/* CONV2D on 8 bits, integers or FP8 (kernels/quant.h): variant 0 the own implicit product, then
 * cuDNN's plan. As with floats, channel_add and act are one more pass over cuDNN's result, and a
 * doubled x is written out for it. */
#include <stdio.h>

#include "kernels/cuda/ops/matmul.h"
#include "kernels/cuda/ops/quant.h"

static graft_status check(const graft_op_desc *op, graft_err *e)
{
    graft_status st = graft_cuda_op_conv2d.check(op, e);
    if (!st && op->out.dim[0] > 65535)
        st = graft_fail(e, GRAFT_E_UNSUPPORTED, "%lld pictures", (long long)op->out.dim[0]);
    return st ? st : graft_cuda_int8_check(op, e);
}

static graft_op_desc library_desc(const graft_op_desc *op)
{
    graft_op_desc d = *op;
    graft_tensor_desc *x = &d.in[GRAFT_CONV_X], *w = &d.in[GRAFT_CONV_W];
    x->dim[1] = graft_cuda_seen_height(op);
    x->dim[2] = graft_cuda_seen_width(op);
    x->dtype = w->dtype = graft_cuda_level(op);
    x->stride[2] = x->dim[3];
    x->stride[1] = x->dim[2] * x->stride[2];
    x->stride[0] = x->dim[1] * x->stride[1];
    d.attrs.upsample = d.attrs.up_h = d.attrs.up_w = 0;
    return d;
}

static graft_status init(graft_kernel *k, int32_t variant, graft_err *e)
{
    graft_cuda_matmul p;
    int32_t count = 0;
    uint64_t end = 0, batch = (uint64_t)k->op.out.dim[0];
    graft_op_desc d = library_desc(&k->op);
    (void)e;
    graft_cuda_matmul_conv(&k->op, &p);
    bool able = k->d->dnn_int8 || k->op.attrs.quant == GRAFT_QUANT_FP8;
    if (k->d->dnn && able && k->t != GRAFT_F32 &&
        graft_cuda_dnn_int8(k->d->dnn, &d, variant < 1 ? variant < 0 ? 0 : -1 : variant - 1,
                            variant == 0 ? NULL : &k->dnn, &count, NULL) == GRAFT_OK &&
        k->dnn) {
        k->part = graft_cuda_reserve(&end, graft_cuda_dnn_workspace(k->dnn));
        k->info.variant_index = variant < 1 ? 1 : variant;
        graft_cuda_dnn_name(k->dnn, k->info.variant, sizeof k->info.variant);
    } else {
        snprintf(k->info.variant, sizeof k->info.variant, "%s", graft_cuda_int8_name(k, &p));
    }
    uint64_t pixels = (uint64_t)(graft_cuda_seen_height(&k->op) * graft_cuda_seen_width(&k->op));
    k->at.level =
        graft_cuda_reserve(&end, batch * pixels * (uint64_t)graft_cuda_int8_padded(p.channels));
    k->at.scale = graft_cuda_reserve(&end, (uint64_t)p.m * sizeof(float));
    k->at.most = graft_cuda_reserve(&end, batch * GRAFT_CUDA_QUANT_SPLITS * sizeof(float));
    k->info.workspace_bytes = end;
    k->info.variant_count = 1 + count;
    graft_cuda_int8_layout(k, false);
    return GRAFT_OK;
}

static graft_status quantize(graft_kernel *k, const void *x, bool library, char *ws)
{
    const int64_t side[2] = {graft_cuda_seen_height(&k->op), graft_cuda_seen_width(&k->op)};
    uint32_t pixels = (uint32_t)(k->op.out.dim[1] * k->op.out.dim[2]);
    return graft_cuda_quantize_pictures(
        k, &k->op.in[GRAFT_CONV_X], x, library && k->op.attrs.upsample == 2 ? side : NULL,
        (int8_t *)ws + k->at.level, (float *)(void *)(ws + k->at.scale), library ? pixels : 1,
        (float *)(void *)(ws + k->at.most));
}

static graft_status launch_own(graft_kernel *k, const void *const *in, void *out, char *ws)
{
    const graft_tensor_desc *x = &k->op.in[GRAFT_CONV_X];
    graft_cuda_int8 p = {.rows_per_scale = (int32_t)(k->op.out.dim[1] * k->op.out.dim[2])};
    graft_status st = quantize(k, in[GRAFT_CONV_X], false, ws);
    if (st) return st;
    graft_cuda_matmul_conv(&k->op, &p.m);
    graft_cuda_int8_levels(&p.m, p.m.channels, x->dim[1], x->dim[2]);
    p.m.channel_add = in[GRAFT_CONV_CHANNEL_ADD];
    p.m.residual = in[GRAFT_CONV_RESIDUAL];
    return graft_cuda_int8_run(k, &p, in, out, ws);
}

static graft_status launch(graft_kernel *k, const void *const *in, void *out, char *ws)
{
    const void *w = in[GRAFT_CONV_W], *add = in[GRAFT_CONV_CHANNEL_ADD];
    const void *residual = in[GRAFT_CONV_RESIDUAL];
    if (!k->dnn || k->refused || !graft_cuda_aligned(&residual, 1, out))
        return launch_own(k, in, out, ws);
    graft_status st = quantize(k, in[GRAFT_CONV_X], true, ws);
    if (st) return st;
    const void *const data[] = {
        ws + k->at.level, w, out, residual, in[GRAFT_CONV_BIAS], graft_cuda_int8_scales(k, w),
        ws + k->at.scale};
    st = graft_cuda_dnn_run(k->d, k->dnn, data, 7, ws + k->part);
    k->refused = st == GRAFT_E_UNSUPPORTED;
    if (k->refused) return launch_own(k, in, out, ws);
    if (st || (!add && k->op.attrs.act == GRAFT_ACT_NONE)) return st;
    return graft_cuda_finish(k, out, k->op.attrs.act, GRAFT_CONV_CHANNEL_ADD, add, 0, NULL);
}

const graft_cuda_op graft_cuda_op_conv2d_int8 = {.check = check, .init = init, .launch = launch};
