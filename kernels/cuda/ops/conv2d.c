/* CONV2D: variant 0 the own implicit product, then cuDNN's plans, then for results of few pixels
 * products by cuBLASLt of what is read, written out: there cuDNN has too few tiles to keep a device
 * busy, and does not divide sums; for doubled pictures behind these a smaller convolution
 * (conv2d_corners.h).
 *
 * cuDNN gets x * w + residual + bias in this order, which its precompiled kernels know; what is
 * left (channel_add, act) is one pass over the result. A doubled x is written out for it, a large
 * one in bands (conv2d_bands.h).
 *
 * Rows of weights whose number of values is no multiple of 8 are padded for the own kernel, which
 * cuDNN does not take: its variants have them dense then, and where one is refused they are padded
 * into the workspace. */
#include <stdio.h>
#include <string.h>

#include "kernels/cuda/libs/dnn.h"
#include "kernels/cuda/libs/lt.h"
#include "kernels/cuda/ops/conv2d_bands.h"
#include "kernels/cuda/ops/conv2d_corners.h"
#include "kernels/cuda/ops/matmul.h"
#include "kernels/cuda/ops/quant.h"

static graft_status check(const graft_op_desc *op, graft_err *e)
{
    const graft_tensor_desc *bias = &op->in[GRAFT_CONV_BIAS];
    if (op->in[GRAFT_CONV_X].constant || op->in[GRAFT_CONV_RESIDUAL].constant ||
        op->in[GRAFT_CONV_CHANNEL_ADD].constant || (graft_cuda_present(bias) && !bias->constant))
        return graft_fail(e, GRAFT_E_UNSUPPORTED,
                          "weights and bias must be constant, all else not");
    if ((op->in[GRAFT_CONV_W].dim[0] + 63) / 64 > 65535)
        return graft_fail(e, GRAFT_E_UNSUPPORTED, "%lld channels",
                          (long long)op->in[GRAFT_CONV_W].dim[0]);
    return GRAFT_OK;
}

static bool doubled(const graft_op_desc *op)
{
    return op->attrs.upsample == 2;
}

/* What is left of the operator where x has been doubled, dense then. */
static graft_op_desc library_desc(const graft_op_desc *op)
{
    graft_op_desc d = *op;
    graft_tensor_desc *x = &d.in[GRAFT_CONV_X];
    if (!doubled(op)) return d;
    x->dim[1] = graft_cuda_seen_height(op);
    x->dim[2] = graft_cuda_seen_width(op);
    x->stride[2] = x->dim[3];
    x->stride[1] = x->dim[2] * x->stride[2];
    x->stride[0] = x->dim[1] * x->stride[1];
    d.attrs.upsample = 0;
    return d;
}

static uint64_t doubled_bytes(const graft_kernel *k)
{
    const graft_op_desc d = library_desc(&k->op);
    const graft_tensor_desc *x = &d.in[GRAFT_CONV_X];
    uint64_t bytes = (uint64_t)(x->dim[0] * x->stride[0]) * graft_dtype_size(k->t);
    return doubled(&k->op) ? (bytes + 255) / 256 * 256 : 0;
}

/* More than kernels count; the own one doubles as it reads. */
static bool too_large_doubled(const graft_op_desc *op)
{
    const graft_op_desc d = library_desc(op);
    return graft_ref_elements(&d.in[GRAFT_CONV_X]) > INT32_MAX - 1024;
}

/* The UNet's first and last convolution and the VAE's: tuning has to find cuDNN faster there. */
static bool odd_channels(const graft_op_desc *op)
{
    return op->in[GRAFT_CONV_W].dim[0] % 8 || op->in[GRAFT_CONV_W].dim[1] % 8;
}

/* Whether cuDNN's weights are laid out unlike the own kernel's. */
static bool is_dense(const graft_kernel *k)
{
    return k->layout[GRAFT_CONV_W].ldw % 8 != 0;
}

static void make_dense(graft_kernel *k)
{
    graft_cuda_layout l = k->layout[GRAFT_CONV_W];
    if (l.channels * l.taps % 8 == 0) return;
    uint64_t end = 0;
    graft_cuda_reserve(&end, k->info.workspace_bytes);
    k->at.weight = graft_cuda_reserve(&end, (uint64_t)l.rows * l.ldw * graft_dtype_size(l.to));
    k->info.workspace_bytes = end;
    l.ldw = l.channels * l.taps;
    graft_cuda_pack_as(k, GRAFT_CONV_W, l);
    k->info.packing[GRAFT_CONV_W] |= 1u << 11; /* pack_as() uses the others */
}

enum { FEW_PIXELS = 512, UNFOLDED = 4 }; /* of a result; algorithms that are offered */

/* Both operands as matrices; false where there is nothing to gain, or rows do not fit. */
static bool unfolded_of(const graft_kernel *k, graft_cuda_gemm *g)
{
    const graft_tensor_desc *x = &k->op.in[GRAFT_CONV_X], *r = &k->op.in[GRAFT_CONV_RESIDUAL];
    const int64_t *w = k->op.in[GRAFT_CONV_W].dim, *y = k->op.out.dim;
    bool residual = graft_cuda_present(r);
    *g = (graft_cuda_gemm){.dtype = k->t,
                           .m = y[0] * y[1] * y[2],
                           .n = w[0],
                           .k = w[1] * w[2] * w[3],
                           .ldx = w[1] * w[2] * w[3],
                           .ldw = k->layout[GRAFT_CONV_W].ldw,
                           .ldo = graft_cuda_row_stride(&k->op.out),
                           .ldr = residual ? graft_cuda_row_stride(r) : 0,
                           .bias = graft_cuda_present(&k->op.in[GRAFT_CONV_BIAS]),
                           .residual = residual};
    return k->d->lt && k->t != GRAFT_F32 && w[2] * w[3] > 1 && g->m <= FEW_PIXELS &&
           !odd_channels(&k->op) && !k->op.attrs.quant && g->ldo > 0 && g->ldr >= 0 &&
           x->stride[0] % 8 == 0 && x->stride[1] % 8 == 0 && x->stride[2] % 8 == 0;
}

/* Variants from number `first` on; returns how many there are. */
static int32_t plan_unfolded(graft_kernel *k, int32_t variant, int32_t first)
{
    graft_cuda_gemm g;
    int32_t count = 0,
            index = variant >= first && variant < first + UNFOLDED ? variant - first : -1;
    if (!unfolded_of(k, &g)) return 0;
    graft_cuda_lt_plan_create(k->d->lt, &g, index, index < 0 ? NULL : &k->lt, &count);
    if (k->lt) {
        uint64_t end = 0;
        graft_cuda_reserve(&end, (uint64_t)(g.m * g.k) * graft_dtype_size(k->t));
        k->part = graft_cuda_reserve(&end, graft_cuda_lt_workspace(k->lt));
        k->info.workspace_bytes = end;
        k->info.variant_index = variant;
        snprintf(k->info.variant, sizeof k->info.variant, "unfolded, cublasLt %d", (int)index);
    }
    return count < UNFOLDED ? count : UNFOLDED;
}

/* Beside what does it where the result has a place of its own. */
static void plan_in_place(graft_kernel *k)
{
    const graft_op_desc d = graft_cuda_bands_desc(k);
    int32_t count = 0;
    if (k->d->dnn) graft_cuda_dnn_conv(k->d->dnn, &d, 0, &k->bands.dnn, &count, NULL);
    uint64_t bytes = k->bands.bytes;
    bytes += k->bands.dnn ? graft_cuda_dnn_workspace(k->bands.dnn) : 0;
    if (bytes > k->info.workspace_bytes) k->info.workspace_bytes = bytes;
}

static graft_status init(graft_kernel *k, int32_t variant, graft_err *e)
{
    graft_cuda_matmul p;
    int32_t count = 0;
    graft_cuda_bands_init(k);
    bool in_bands = k->bands.rows && !k->bands.in_place;
    graft_op_desc d = in_bands ? graft_cuda_bands_desc(k) : library_desc(&k->op);
    bool odd = odd_channels(&d);
    (void)e;
    graft_cuda_matmul_layout(k, false);
    if (odd && variant < 0) variant = 0;
    if (k->d->dnn && k->t != GRAFT_F32 && !(odd && d.attrs.quant) &&
        (in_bands || !too_large_doubled(&k->op)) &&
        graft_cuda_dnn_conv(k->d->dnn, &d, variant < 1 ? variant < 0 ? 0 : -1 : variant - 1,
                            variant == 0 ? NULL : &k->dnn, &count, NULL) == GRAFT_OK &&
        k->dnn) {
        k->part = in_bands ? k->bands.bytes : doubled_bytes(k);
        k->info.workspace_bytes = k->part + graft_cuda_dnn_workspace(k->dnn);
        make_dense(k);
        k->info.variant_index = variant < 1 ? 1 : variant;
        graft_cuda_dnn_name(k->dnn, k->info.variant, sizeof k->info.variant);
    } else {
        graft_cuda_matmul_conv(&k->op, &p);
        snprintf(k->info.variant, sizeof k->info.variant, "%s", graft_cuda_matmul_name(k, &p));
    }
    count += 1 + plan_unfolded(k, variant, 1 + count);
    k->info.variant_count = count + graft_cuda_corners_init(k, variant, count);
    if (k->bands.in_place) plan_in_place(k);
    return GRAFT_OK;
}

/* Dense weights as the own kernel wants them. */
static graft_status pad_weights(graft_kernel *k, const void *w, void *to)
{
    const graft_cuda_layout *l = &k->layout[GRAFT_CONV_W];
    graft_cuda_pack p = {.src = w,
                         .dst = to,
                         .from = l->to,
                         .to = l->to,
                         .rows = l->rows,
                         .channels = l->ldw,
                         .taps = 1,
                         .ldw = (l->ldw + 7) / 8 * 8};
    return graft_cuda_launch(k->d, GRAFT_CUDA_FN_graft_pack,
                             graft_cuda_blocks((uint64_t)p.rows * p.ldw, GRAFT_CUDA_THREADS), 1, 1,
                             &p);
}

static graft_status launch_own(graft_kernel *k, const void *const *in, void *out, char *workspace)
{
    const void *all[GRAFT_MAX_INPUTS];
    memcpy(all, in, sizeof all);
    if (is_dense(k)) {
        graft_status st = pad_weights(k, all[GRAFT_CONV_W], workspace + k->at.weight);
        if (st) return st;
        all[GRAFT_CONV_W] = workspace + k->at.weight;
    }
    return graft_cuda_matmul_conv_run(k, &k->op, all, out);
}

static graft_status write_doubled(graft_kernel *k, const void *x, void *to)
{
    const graft_op_desc d = library_desc(&k->op);
    const graft_tensor_desc *from = &k->op.in[GRAFT_CONV_X], *t = &d.in[GRAFT_CONV_X];

    graft_cuda_move p = {.src = x, .dst = to, .from = k->t, .to = k->t};
    graft_cuda_shape(t, p.dim, p.sd);
    graft_cuda_shape(from, NULL, p.ss);
    p.in_h = p.in_w = GRAFT_CUDA_HALF;
    p.count = (uint32_t)graft_ref_elements(t);
    return graft_cuda_move_run(k->d, &p);
}

static graft_status unfold(graft_kernel *k, const void *x, void *to)
{
    const graft_tensor_desc *from = &k->op.in[GRAFT_CONV_X];
    const int64_t *w = k->op.in[GRAFT_CONV_W].dim, *y = k->op.out.dim;
    graft_cuda_unfold p = {.src = x,
                           .dst = to,
                           .ss = {from->stride[0], from->stride[1], from->stride[2]},
                           .eights = (uint32_t)w[1] / 8,
                           .taps = (uint32_t)(w[2] * w[3]),
                           .kernel_w = (uint32_t)w[3],
                           .out_h = (uint32_t)y[1],
                           .out_w = (uint32_t)y[2],
                           .in_h = (int32_t)graft_cuda_seen_height(&k->op),
                           .in_w = (int32_t)graft_cuda_seen_width(&k->op),
                           .stride_h = k->op.attrs.stride_h,
                           .stride_w = k->op.attrs.stride_w,
                           .pad_top = k->op.attrs.pad_top,
                           .pad_left = k->op.attrs.pad_left,
                           .up = doubled(&k->op)};
    p.count = (uint32_t)(y[0] * y[1] * y[2]) * p.taps * p.eights;
    return graft_cuda_launch(k->d, GRAFT_CUDA_FN_graft_unfold,
                             graft_cuda_blocks(p.count, GRAFT_CUDA_THREADS), 1, 1, &p);
}

static graft_status launch_unfolded(graft_kernel *k, const void *const *in, void *out,
                                    char *workspace)
{
    graft_status st = unfold(k, in[GRAFT_CONV_X], workspace);
    return st ? st
              : graft_cuda_lt_run(k->d, k->lt, workspace, in[GRAFT_CONV_W], in[GRAFT_CONV_BIAS],
                                  in[GRAFT_CONV_RESIDUAL], out, workspace + k->part);
}

static graft_status launch_dnn(graft_kernel *k, const void *const *in, void *out, char *workspace)
{
    const void *x = in[GRAFT_CONV_X];
    graft_status st = GRAFT_OK;
    if (k->bands.rows && !k->bands.in_place)
        return graft_cuda_bands_run(k, k->dnn, in, out, workspace);
    if (doubled(&k->op)) {
        st = write_doubled(k, x, workspace);
        x = workspace;
    }
    if (st) return st;
    const void *const data[] = {x, in[GRAFT_CONV_W], out, in[GRAFT_CONV_RESIDUAL],
                                in[GRAFT_CONV_BIAS]};
    return graft_cuda_dnn_run(k->d, k->dnn, data, 5, workspace ? workspace + k->part : NULL);
}

static graft_status launch(graft_kernel *k, const void *const *in, void *out, char *workspace)
{
    const void *add = in[GRAFT_CONV_CHANNEL_ADD];
    bool library = (k->dnn || k->lt) && !k->refused && graft_cuda_aligned(in, 5, out);
    graft_status st = GRAFT_E_UNSUPPORTED;
    if (out == in[GRAFT_CONV_X]) {
        graft_cuda_dnn_plan *plan = graft_cuda_aligned(in, 5, out) ? k->bands.dnn : NULL;
        st = graft_cuda_bands_run(k, plan, in, out, workspace);
    } else if (k->corners) {
        st = graft_cuda_corners_run(k, in, out, workspace); /* has an own kernel to stand in */
    } else if (library) {
        st = k->lt ? launch_unfolded(k, in, out, workspace) : launch_dnn(k, in, out, workspace);
        k->refused = st == GRAFT_E_UNSUPPORTED;
    }
    if (st == GRAFT_E_UNSUPPORTED) return launch_own(k, in, out, workspace);
    if (st || (!add && k->op.attrs.act == GRAFT_ACT_NONE)) return st;
    return graft_cuda_finish(k, out, k->op.attrs.act, GRAFT_CONV_CHANNEL_ADD, add, 0, NULL);
}

const graft_cuda_op graft_cuda_op_conv2d = {
    .check = check, .init = init, .launch = launch, .inplace = true};
