/* LINEAR on 8 bits, integers or FP8 (kernels/quant.h): variant 0 the own product, then cuBLASLt's
 * algorithms for FP8, then cuDNN's plan, which for tuning alone is made where there are such, then
 * own kernels of int8 for Hopper, the first choice where there is no library's.
 *
 * cuBLASLt multiplies int8 on Hopper but does not scale what it gives; cuDNN does, and to it this
 * is a convolution of 1 x 1 over a picture one pixel wide, whose pixels are the rows. */
#include <stdio.h>

#include "kernels/cuda/libs/lt.h"
#include "kernels/cuda/ops/matmul.h"
#include "kernels/cuda/ops/quant.h"
#include "kernels/cuda/ops/wgmma.h"

/* Rows are normed on their way to levels. */
static bool has_norm(const graft_op_desc *op)
{
    return graft_cuda_present(&op->in[GRAFT_LINEAR_GAMMA]);
}

static graft_status check(const graft_op_desc *op, graft_err *e)
{
    graft_status st = graft_cuda_op_linear.check(op, e);
    if (!st && has_norm(op) && op->in[GRAFT_LINEAR_W].dim[1] > GRAFT_CUDA_NORMED_ROW)
        st = graft_fail(e, GRAFT_E_UNSUPPORTED, "a norm of rows of more than %d values",
                        (int)GRAFT_CUDA_NORMED_ROW);
    if (!st && op->attrs.groups && op->in[GRAFT_LINEAR_W].dim[1] > GRAFT_CUDA_TURNED_ROW)
        st = graft_fail(e, GRAFT_E_UNSUPPORTED, "groups in rows of more than %d values",
                        (int)GRAFT_CUDA_TURNED_ROW);
    return st ? st : graft_cuda_int8_check(op, e);
}

static graft_tensor_desc picture(graft_dtype t, int64_t rows, int64_t columns, int64_t stride)
{
    return (graft_tensor_desc){.dtype = t,
                               .rank = 4,
                               .dim = {1, rows, 1, columns},
                               .stride = {rows * stride, stride, stride, 1}};
}

/* False where rows are not equally far apart, or a result is not one of the plan's. */
static bool library_desc(const graft_kernel *k, graft_op_desc *d)
{
    const graft_tensor_desc *w = &k->op.in[GRAFT_LINEAR_W], *r = &k->op.in[GRAFT_LINEAR_RESIDUAL];
    bool geglu = k->op.attrs.act == GRAFT_ACT_GEGLU, residual = graft_cuda_present(r);
    int64_t rows = graft_ref_rows(&k->op.in[GRAFT_LINEAR_X]), n = w->dim[0];
    int64_t out = geglu ? n : graft_cuda_row_stride(&k->op.out);
    int64_t added = residual ? graft_cuda_row_stride(r) : 0;
    if (!k->d->dnn || k->t == GRAFT_F32 || out < 0 || added < 0) return false;
    *d = (graft_op_desc){.size = sizeof *d,
                         .op = GRAFT_OP_CONV2D,
                         .attrs = {.kernel_h = 1,
                                   .kernel_w = 1,
                                   .stride_h = 1,
                                   .stride_w = 1,
                                   .quant = k->op.attrs.quant}};
    d->in[GRAFT_CONV_X] = picture(graft_cuda_level(&k->op), rows, w->dim[1], w->dim[1]);
    d->in[GRAFT_CONV_W] = (graft_tensor_desc){
        .dtype = graft_cuda_level(&k->op), .rank = 4, .dim = {n, w->dim[1], 1, 1}, .constant = 1};
    if (graft_cuda_present(&k->op.in[GRAFT_LINEAR_BIAS]))
        d->in[GRAFT_CONV_BIAS] =
            (graft_tensor_desc){.dtype = GRAFT_F32, .rank = 1, .dim = {n}, .constant = 1};
    if (residual) d->in[GRAFT_CONV_RESIDUAL] = picture(k->t, rows, n, added);
    d->out = picture(k->t, rows, n, out);
    return true;
}

/* ldo: of the result of GEGLU's product, before pairs are folded. False as above. */
static bool gemm_of(const graft_kernel *k, const graft_cuda_matmul *p, graft_cuda_gemm *g)
{
    const graft_tensor_desc *r = &k->op.in[GRAFT_LINEAR_RESIDUAL];
    bool geglu = k->op.attrs.act == GRAFT_ACT_GEGLU;
    int64_t padded = graft_cuda_int8_padded(p->channels);
    *g = (graft_cuda_gemm){.dtype = k->t,
                           .levels = graft_cuda_level(&k->op),
                           .m = p->m,
                           .n = p->n,
                           .k = padded,
                           .ldx = padded,
                           .ldw = padded,
                           .ldo = geglu ? p->n : graft_cuda_row_stride(&k->op.out),
                           .ldr = graft_cuda_present(r) ? graft_cuda_row_stride(r) : 0,
                           .bias = graft_cuda_present(&k->op.in[GRAFT_LINEAR_BIAS]),
                           .residual = graft_cuda_present(r)};
    return g->ldo >= 0 && g->ldr >= 0;
}

/* False as above, for integers, and on devices where cuBLASLt has no scales of rows. */
static bool lt_gemm_of(const graft_kernel *k, const graft_cuda_matmul *p, graft_cuda_gemm *g)
{
    return gemm_of(k, p, g) && k->d->lt && k->d->capability == 90 && k->t != GRAFT_F32 &&
           g->levels == GRAFT_F8_E4M3;
}

/* As Hopper's kernels see it: they fold pairs themselves. */
static bool wgmma_of(const graft_kernel *k, const graft_cuda_matmul *p, graft_cuda_gemm *g)
{
    if (!gemm_of(k, p, g)) return false;
    g->ldo = graft_cuda_row_stride(&k->op.out);
    return g->ldo >= 0;
}

/* Which of a library's choices a variant is, the first of which has number `first`. */
static int32_t choice_of(int32_t variant, int32_t first)
{
    return variant < 0 && first == 1 ? 0 : variant < first ? -1 : variant - first;
}

enum { AT_ONCE = 4 }; /* algorithms that are tried for the second form of a product */

/* cuBLASLt's algorithms for FP8, *count of them. In FP8 a bias or a residual is known to work, both
 * are not, and what proposes algorithms is not told whether a residual counts. So the first ones
 * leave it to another pass, and those behind them, which add both at once, are for tuning, which
 * sees whether they run. */
static void plan_lt(graft_kernel *k, const graft_cuda_matmul *p, int32_t variant, int32_t *count)
{
    graft_cuda_gemm both, g;
    int32_t more = 0;
    *count = 0;
    if (!lt_gemm_of(k, p, &both)) return;
    bool apart = both.bias && both.residual;
    g = both;
    if (apart) {
        g.residual = false;
        g.ldr = 0;
    }
    graft_cuda_lt_plan_create(k->d->lt, &g, choice_of(variant, 1), variant == 0 ? NULL : &k->lt,
                              count);
    k->apart = apart && k->lt;
    if (!apart || !*count) return;
    int32_t choice = choice_of(variant, 1 + *count);
    graft_cuda_lt_plan_create(k->d->lt, &both, choice < AT_ONCE ? choice : -1,
                              k->lt ? NULL : &k->lt, &more);
    *count += more < AT_ONCE ? more : AT_ONCE;
}

/* cuDNN's plan as variant 1 + lt, lt being how many are cuBLASLt's. Compiling it takes seconds, so
 * where there are such it is made only for who asks for it by number. */
static graft_status plan_dnn(graft_kernel *k, int32_t variant, int32_t lt, int32_t *count,
                             graft_err *e)
{
    graft_op_desc d;
    *count = 0;
    if (!library_desc(k, &d) || !graft_cuda_dnn_takes_levels(&d)) return GRAFT_OK;
    if (!k->d->dnn_int8 && k->op.attrs.quant == GRAFT_QUANT_INT8) return GRAFT_OK;
    if (lt) {
        *count = 1;
        k->info.slow = 1u << (1 + lt);
        if (variant != 1 + lt) return GRAFT_OK;
    }
    int32_t made = 0;
    graft_status st = graft_cuda_dnn_int8(k->d->dnn, &d, choice_of(variant, 1 + lt),
                                          variant == 0 ? NULL : &k->dnn, &made, NULL);
    if (!lt) *count = made;
    if (lt && (st || !k->dnn)) return graft_fail(e, GRAFT_E_UNSUPPORTED, "cuDNN has no such plan");
    return GRAFT_OK;
}

/* What GEGLU's product and the library need in the workspace. */
static void reserve_library(graft_kernel *k, const graft_cuda_matmul *p, int32_t variant,
                            uint64_t bytes, uint64_t *end)
{
    uint64_t value = graft_dtype_size(k->t);
    bool geglu = k->op.attrs.act == GRAFT_ACT_GEGLU;
    k->at.wide = graft_cuda_reserve(end, geglu ? (uint64_t)p->m * (uint64_t)p->n * value : 0);
    k->part = graft_cuda_reserve(end, bytes);
    k->info.variant_index = variant < 1 ? 1 : variant;
}

/* Of `hopper` own kernels behind the variants before `first`. */
static void choose_wgmma(graft_kernel *k, int32_t variant, int32_t first, int32_t hopper)
{
    bool library = k->lt || k->dnn;
    if (variant < 0 && !library) variant = first;
    if (library || variant < first || variant >= first + hopper) return;
    k->wgmma = variant - first + 1;
    k->info.variant_index = variant;
}

static graft_status init(graft_kernel *k, int32_t variant, graft_err *e)
{
    graft_cuda_matmul p;
    graft_cuda_gemm g;
    int32_t lt = 0, dnn = 0;
    uint64_t end = 0;
    bool geglu = k->op.attrs.act == GRAFT_ACT_GEGLU;
    graft_cuda_matmul_linear(&k->op, &p);
    k->at.level =
        graft_cuda_reserve(&end, (uint64_t)p.m * (uint64_t)graft_cuda_int8_padded(p.channels));
    k->at.scale = graft_cuda_reserve(&end, (uint64_t)p.m * sizeof(float));
    plan_lt(k, &p, variant, &lt);
    graft_status st = plan_dnn(k, variant, lt, &dnn, e);
    if (st) return st;
    int32_t hopper = wgmma_of(k, &p, &g) ? graft_cuda_wgmma_count(k->d, &g) : 0;
    choose_wgmma(k, variant, 1 + lt + dnn, hopper);
    if (k->lt) {
        reserve_library(k, &p, variant, graft_cuda_lt_workspace(k->lt), &end);
        snprintf(k->info.variant, sizeof k->info.variant, "cublasLt fp8 %d%s%s",
                 (int)k->info.variant_index - 1, graft_cuda_lt_fast(k->lt) ? " fast" : "",
                 k->apart ? " + residual" : "");
    } else if (k->dnn) {
        reserve_library(k, &p, variant, graft_cuda_dnn_workspace(k->dnn), &end);
        graft_cuda_dnn_name(k->dnn, k->info.variant, sizeof k->info.variant);
    } else {
        snprintf(k->info.variant, sizeof k->info.variant, "%s",
                 k->wgmma ? graft_cuda_wgmma_name(k->wgmma - 1, true)
                          : graft_cuda_int8_name(k, &p));
    }
    k->info.workspace_bytes = end;
    k->info.variant_count = 1 + lt + dnn + hopper;
    graft_cuda_int8_layout(k, geglu);
    graft_cuda_pack_plain(k, GRAFT_LINEAR_GAMMA, GRAFT_F32);
    graft_cuda_pack_plain(k, GRAFT_LINEAR_BETA, GRAFT_F32);
    return GRAFT_OK;
}

static graft_status launch_own(graft_kernel *k, const void *const *in, void *out, const char *ws)
{
    graft_cuda_int8 p = {.rows_per_scale = 1};
    graft_cuda_matmul_linear(&k->op, &p.m);
    graft_cuda_int8_levels(&p.m, p.m.channels, p.m.in_h, p.m.in_w);
    p.m.residual = in[GRAFT_LINEAR_RESIDUAL];
    return graft_cuda_int8_run(k, &p, in, out, ws);
}

static graft_status launch_lt(graft_kernel *k, const void *const *in, void *out, char *ws)
{
    const float *rows = (const float *)(const void *)(ws + k->at.scale);
    graft_cuda_lt_scales(k->lt, rows, graft_cuda_int8_scales(k, in[GRAFT_LINEAR_W]));
    return graft_cuda_lt_run(k->d, k->lt, ws + k->at.level, in[GRAFT_LINEAR_W],
                             in[GRAFT_LINEAR_BIAS], in[GRAFT_LINEAR_RESIDUAL], out, ws + k->part);
}

static graft_status launch_dnn(graft_kernel *k, const void *const *in, void *out, char *ws)
{
    const void *w = in[GRAFT_LINEAR_W];
    const void *const data[] = {ws + k->at.level,
                                w,
                                out,
                                in[GRAFT_LINEAR_RESIDUAL],
                                in[GRAFT_LINEAR_BIAS],
                                graft_cuda_int8_scales(k, w),
                                ws + k->at.scale};
    return graft_cuda_dnn_run(k->d, k->dnn, data, 7, ws + k->part);
}

static graft_status launch_wgmma(graft_kernel *k, const void *const *in, void *out, const char *ws)
{
    graft_cuda_matmul p;
    graft_cuda_gemm g;
    graft_cuda_matmul_linear(&k->op, &p);
    wgmma_of(k, &p, &g);
    const graft_cuda_wgmma_data data = {
        .x = ws + k->at.level,
        .w = in[GRAFT_LINEAR_W],
        .bias = in[GRAFT_LINEAR_BIAS],
        .residual = in[GRAFT_LINEAR_RESIDUAL],
        .out = out,
        .row_scale = (const float *)(const void *)(ws + k->at.scale),
        .column_scale = graft_cuda_int8_scales(k, in[GRAFT_LINEAR_W])};
    return graft_cuda_wgmma_run(k->d, k->wgmma - 1, &g, k->op.attrs.act, &data);
}

static graft_status write_levels(graft_kernel *k, const void *const *in, char *ws)
{
    const graft_tensor_desc *x = &k->op.in[GRAFT_LINEAR_X];
    int8_t *level = (int8_t *)ws + k->at.level;
    float *scale = (float *)(void *)(ws + k->at.scale);
    if (k->op.attrs.groups)
        return graft_cuda_turn_rows(k, x, in[GRAFT_LINEAR_X], in[GRAFT_LINEAR_GAMMA],
                                    in[GRAFT_LINEAR_BETA], level, scale);
    if (!has_norm(&k->op)) return graft_cuda_quantize_rows(k, x, in[GRAFT_LINEAR_X], level, scale);
    return graft_cuda_norm_rows(k, x, in[GRAFT_LINEAR_X], in[GRAFT_LINEAR_GAMMA],
                                in[GRAFT_LINEAR_BETA], level, scale);
}

static graft_status launch(graft_kernel *k, const void *const *in, void *out, char *ws)
{
    graft_act act = k->op.attrs.act;
    bool geglu = act == GRAFT_ACT_GEGLU;
    const void *residual = in[GRAFT_LINEAR_RESIDUAL];
    void *to = geglu ? ws + k->at.wide : out;
    graft_status st = write_levels(k, in, ws);
    if (st) return st;
    const void *const near[] = {in[GRAFT_LINEAR_W], residual};
    if (k->wgmma && graft_cuda_aligned(near, 2, out)) return launch_wgmma(k, in, out, ws);
    if ((!k->dnn && !k->lt) || k->refused || !graft_cuda_aligned(&residual, 1, out))
        return launch_own(k, in, out, ws);
    st = k->lt ? launch_lt(k, in, to, ws) : launch_dnn(k, in, to, ws);
    k->refused = st == GRAFT_E_UNSUPPORTED;
    if (k->refused) return launch_own(k, in, out, ws);
    if (st || (act == GRAFT_ACT_NONE && !k->apart)) return st;
    if (geglu) return graft_cuda_fold_pairs(k, ws + k->at.wide, out);
    return graft_cuda_finish(k, out, act, 0, NULL, GRAFT_LINEAR_RESIDUAL,
                             k->apart ? residual : NULL);
}

const graft_cuda_op graft_cuda_op_linear_int8 = {.check = check, .init = init, .launch = launch};
