/* ATTENTION: variant 0 own kernels, then cuDNN's where there is one for the shape, then Hopper's.
 * Long heads have products by cuBLASLt behind all of them, which are the own choice. With a bias
 * the own kernel that sums in float32; with a count of keys no products, and own kernels before
 * cuDNN's, which are for those to choose who compare (no device has computed them yet). */
#include <stdio.h>

#include "kernels/cuda/ops/attention_wide.h"
#include "kernels/cuda/ops/op.h"
#include "kernels/cuda/libs/dnn.h"
#include "kernels/cuda/ops/flash.h"

static graft_status check(const graft_op_desc *op, graft_err *e)
{
    int64_t head_dim = op->out.dim[2] / op->attrs.heads;
    for (int i = 0; i < 3; i++)
        if (op->in[i].constant)
            return graft_fail(e, GRAFT_E_UNSUPPORTED, "constant queries, keys or values");
    if (!(op->attrs.shift >= 0) ||
        (op->attrs.shift > 0 && !graft_cuda_present(&op->in[GRAFT_ATTENTION_BIAS])))
        return graft_fail(e, GRAFT_E_UNSUPPORTED, "capped scores without a bias");
    if (head_dim > GRAFT_CUDA_MAX_HEAD)
        return graft_fail(e, GRAFT_E_UNSUPPORTED, "heads of %lld channels, at most %d are possible",
                          (long long)head_dim, GRAFT_CUDA_MAX_HEAD);
    if (op->out.dim[0] > 65535 || op->attrs.heads > 65535)
        return graft_fail(e, GRAFT_E_UNSUPPORTED, "%d heads of %lld pictures", op->attrs.heads,
                          (long long)op->out.dim[0]);
    return GRAFT_OK;
}

/* cuDNN's plan for the variant, *count of which are there. -1: its first. */
static void plan_dnn(graft_kernel *k, int32_t variant, int32_t *count)
{
    *count = 0;
    if (!k->d->dnn || k->op.attrs.causal || k->t == GRAFT_F32) return;
    if (variant == 0)
        graft_cuda_dnn_attention(k->d->dnn, &k->op, -1, NULL, count, NULL);
    else if (graft_cuda_dnn_attention(k->d->dnn, &k->op, variant < 1 ? 0 : variant - 1, &k->dnn,
                                      count, NULL))
        k->dnn = NULL;
}

/* One of Hopper's kernels, or products, which are behind them. */
static graft_status choose_own(graft_kernel *k, int32_t index, int32_t hopper)
{
    graft_status st = index < hopper ? GRAFT_OK : graft_cuda_wide_init(k);
    if (st) return st;
    k->dnn = NULL;
    k->wgmma = index < hopper ? index + 1 : 0;
    snprintf(k->info.variant, sizeof k->info.variant, "%s",
             index < hopper ? graft_cuda_flash_name(&k->op, index) : "products by cublasLt");
    return GRAFT_OK;
}

static graft_status init(graft_kernel *k, int32_t variant, graft_err *e)
{
    int32_t dnn = 0, hopper = graft_cuda_flash_count(k->d, &k->op), wide = 0;
    if (graft_cuda_present(&k->op.in[GRAFT_ATTENTION_BIAS])) {
        k->info.variant_count = 1; /* own kernels only */
        return GRAFT_OK;
    }
    const bool counted = graft_cuda_present(&k->op.in[GRAFT_ATTENTION_COUNT]);
    wide = graft_cuda_wide_possible(k);
    plan_dnn(k, variant < 0 && counted ? 0 : variant, &dnn);
    k->info.variant_count = 1 + dnn + hopper + wide;
    bool compiled = k->dnn && graft_cuda_dnn_compiled(k->dnn);
    for (int32_t v = 2; v <= dnn && compiled; v++) k->info.slow |= 1u << v;
    if (variant < 0 && wide && choose_own(k, hopper, hopper) == GRAFT_OK) {
        k->info.variant_index = dnn + hopper + 1;
        return GRAFT_OK;
    }
    if (variant < 0 && !k->dnn && hopper) variant = 1 + dnn;
    if (variant > dnn && variant <= dnn + hopper + wide) {
        k->info.variant_index = variant;
        if (choose_own(k, variant - dnn - 1, hopper))
            return graft_fail(e, GRAFT_E_UNSUPPORTED, "cuBLASLt has no such products");
    } else if (k->dnn) {
        k->info.variant_index = variant < 1 ? 1 : variant;
        k->info.workspace_bytes = graft_cuda_dnn_workspace(k->dnn);
        graft_cuda_dnn_name(k->dnn, k->info.variant, sizeof k->info.variant);
    } else if (variant > 0 && variant <= dnn) {
        return graft_fail(e, GRAFT_E_UNSUPPORTED, "cuDNN has no such plan");
    }
    return GRAFT_OK;
}

static const struct {
    int64_t head_dim;
    graft_cuda_function f16, bf16;
} flash[] = {
    {48, GRAFT_CUDA_FN_graft_flash_48_f16, GRAFT_CUDA_FN_graft_flash_48_bf16},
    {64, GRAFT_CUDA_FN_graft_flash_64_f16, GRAFT_CUDA_FN_graft_flash_64_bf16},
    {80, GRAFT_CUDA_FN_graft_flash_80_f16, GRAFT_CUDA_FN_graft_flash_80_bf16},
    {128, GRAFT_CUDA_FN_graft_flash_128_f16, GRAFT_CUDA_FN_graft_flash_128_bf16},
    {160, GRAFT_CUDA_FN_graft_flash_160_f16, GRAFT_CUDA_FN_graft_flash_160_bf16},
};

/* All rows of t begin at multiples of 16 bytes, for two bytes an element. */
static bool aligned(const graft_tensor_desc *t, const void *p)
{
    return (uintptr_t)p % 16 == 0 && t->stride[0] % 8 == 0 && t->stride[1] % 8 == 0;
}

static graft_status launch_own(graft_kernel *k, const void *const *in, void *out)
{
    const graft_tensor_desc *q = &k->op.in[0], *key = &k->op.in[1], *v = &k->op.in[2];
    graft_cuda_attention p = {.q = in[0],
                              .k = in[1],
                              .v = in[2],
                              .out = out,
                              .queries = (int32_t)q->dim[1],
                              .keys = (int32_t)key->dim[1],
                              .heads = k->op.attrs.heads,
                              .head_dim = (int32_t)(q->dim[2] / k->op.attrs.heads),
                              .causal = k->op.attrs.causal != 0,
                              .scale = k->op.attrs.scale};
    for (int i = 0; i < 2; i++) {
        p.sq[i] = q->stride[i];
        p.sk[i] = key->stride[i];
        p.sv[i] = v->stride[i];
        p.so[i] = k->op.out.stride[i];
    }
    const graft_tensor_desc *bias = &k->op.in[GRAFT_ATTENTION_BIAS];
    if (graft_cuda_present(bias)) {
        p.bias = in[GRAFT_ATTENTION_BIAS];
        p.cap = k->op.attrs.shift;
        p.sbias[0] = bias->stride[0];
        p.sbias[1] = bias->stride[1];
    }
    if (graft_cuda_present(&k->op.in[GRAFT_ATTENTION_COUNT])) p.count = in[GRAFT_ATTENTION_COUNT];
    p.vec = p.head_dim % 8 == 0 && aligned(key, in[1]) && aligned(v, in[2]);
    graft_cuda_function f = graft_cuda_typed(GRAFT_CUDA_FN_graft_attention, k->t);
    uint32_t queries = 16;
    for (size_t i = 0; i < sizeof flash / sizeof *flash && k->t != GRAFT_F32 && !p.bias; i++) {
        if (p.head_dim > flash[i].head_dim) continue;
        f = k->t == GRAFT_F16 ? flash[i].f16 : flash[i].bf16;
        queries = 64;
        break;
    }
    return graft_cuda_launch(k->d, f, graft_cuda_blocks((uint64_t)p.queries, queries),
                             (uint32_t)p.heads, (uint32_t)q->dim[0], &p);
}

static graft_status launch(graft_kernel *k, const void *const *in, void *out, char *workspace)
{
    if (k->refused || !graft_cuda_aligned(in, 3, out)) return launch_own(k, in, out);
    if (k->wgmma) return graft_cuda_flash_run(k->d, k->wgmma - 1, &k->op, in, out);
    if (!k->dnn && !k->lt) return launch_own(k, in, out);
    const bool counted = graft_cuda_present(&k->op.in[GRAFT_ATTENTION_COUNT]);
    const void *const data[] = {in[0], in[1], in[2],
                                out,   NULL,  counted ? in[GRAFT_ATTENTION_COUNT] : NULL};
    graft_status st = k->lt ? graft_cuda_wide_run(k, in, out, workspace)
                            : graft_cuda_dnn_run(k->d, k->dnn, data, 6, workspace);
    k->refused = st == GRAFT_E_UNSUPPORTED;
    return k->refused ? launch_own(k, in, out) : st;
}

const graft_cuda_op graft_cuda_op_attention = {.check = check, .init = init, .launch = launch};
