/* LINEAR: variant 0 the own product, then cuBLASLt's algorithms, then own kernels for Hopper.
 *
 * cuBLASLt adds the bias and the residual; activations are one more pass. For GEGLU the weight's
 * halves are interleaved, so that a product and its gate are neighbours. */
#include <stdio.h>

#include "kernels/cuda/libs/lt.h"
#include "kernels/cuda/ops/matmul.h"
#include "kernels/cuda/ops/wgmma.h"

static graft_status check(const graft_op_desc *op, graft_err *e)
{
    const graft_tensor_desc *bias = &op->in[GRAFT_LINEAR_BIAS];
    if (op->in[GRAFT_LINEAR_X].constant || op->in[GRAFT_LINEAR_RESIDUAL].constant ||
        (graft_cuda_present(bias) && !bias->constant))
        return graft_fail(e, GRAFT_E_UNSUPPORTED,
                          "weights and bias must be constant, all else not");
    if ((op->in[GRAFT_LINEAR_W].dim[0] + 63) / 64 > 65535)
        return graft_fail(e, GRAFT_E_UNSUPPORTED, "%lld outputs",
                          (long long)op->in[GRAFT_LINEAR_W].dim[0]);
    return GRAFT_OK;
}

/* False when rows are not equally far apart: cuBLASLt cannot read them then. */
static bool gemm_of(const graft_kernel *k, graft_cuda_gemm *g)
{
    const graft_tensor_desc *x = &k->op.in[GRAFT_LINEAR_X], *r = &k->op.in[GRAFT_LINEAR_RESIDUAL];
    graft_cuda_matmul p;
    bool geglu = k->op.attrs.act == GRAFT_ACT_GEGLU;
    graft_cuda_matmul_linear(&k->op, &p);
    *g = (graft_cuda_gemm){.dtype = k->t,
                           .m = p.m,
                           .n = p.n,
                           .k = p.k,
                           .ldw = p.ldw,
                           .ldx = graft_cuda_row_stride(x),
                           .ldo = geglu ? p.n : graft_cuda_row_stride(&k->op.out),
                           .ldr = graft_cuda_present(r) ? graft_cuda_row_stride(r) : 0,
                           .bias = graft_cuda_present(&k->op.in[GRAFT_LINEAR_BIAS]),
                           .residual = graft_cuda_present(r)};
    return g->ldx >= 0 && g->ldo >= 0 && g->ldr >= 0;
}

/* The same as Hopper's kernels see it: they fold pairs themselves. */
static bool wgmma_of(const graft_kernel *k, graft_cuda_gemm *g)
{
    if (!gemm_of(k, g)) return false;
    g->ldo = graft_cuda_row_stride(&k->op.out);
    return g->ldo >= 0;
}

static graft_status init(graft_kernel *k, int32_t variant, graft_err *e)
{
    graft_cuda_matmul p;
    graft_cuda_gemm g;
    int32_t count = 0, hopper = wgmma_of(k, &g) ? graft_cuda_wgmma_count(k->d, &g) : 0;
    bool geglu = k->op.attrs.act == GRAFT_ACT_GEGLU;
    (void)e;
    graft_cuda_matmul_linear(&k->op, &p);
    if (k->d->lt && gemm_of(k, &g) &&
        graft_cuda_lt_plan_create(k->d->lt, &g, variant < 1 ? variant < 0 ? 0 : -1 : variant - 1,
                                  variant == 0 ? NULL : &k->lt, &count) == GRAFT_OK &&
        k->lt) {
        k->part =
            geglu ? ((uint64_t)g.m * (uint64_t)g.n * graft_dtype_size(k->t) + 255) / 256 * 256 : 0;
        k->info.workspace_bytes = k->part + graft_cuda_lt_workspace(k->lt);
        k->info.variant_index = variant < 1 ? 1 : variant;
        snprintf(k->info.variant, sizeof k->info.variant, "cublasLt %d",
                 (int)k->info.variant_index - 1);
    } else {
        snprintf(k->info.variant, sizeof k->info.variant, "%s", graft_cuda_matmul_name(k, &p));
    }
    if (variant > count && variant <= count + hopper) {
        k->wgmma = variant - count;
        k->info.variant_index = variant;
        snprintf(k->info.variant, sizeof k->info.variant, "%s",
                 graft_cuda_wgmma_name(k->wgmma - 1, false));
    }
    k->info.variant_count = 1 + count + hopper;
    graft_cuda_matmul_layout(k, geglu);
    return GRAFT_OK;
}

static graft_status launch_own(graft_kernel *k, const void *const *in, void *out)
{
    graft_cuda_matmul p;
    graft_cuda_matmul_linear(&k->op, &p);
    p.x = in[GRAFT_LINEAR_X];
    p.w = in[GRAFT_LINEAR_W];
    p.bias = in[GRAFT_LINEAR_BIAS];
    p.residual = in[GRAFT_LINEAR_RESIDUAL];
    p.out = out;
    return graft_cuda_matmul_run(k, &p);
}

static graft_status launch_wgmma(graft_kernel *k, const void *const *in, void *out)
{
    graft_cuda_gemm g;
    wgmma_of(k, &g);
    const graft_cuda_wgmma_data data = {.x = in[GRAFT_LINEAR_X],
                                        .w = in[GRAFT_LINEAR_W],
                                        .bias = in[GRAFT_LINEAR_BIAS],
                                        .residual = in[GRAFT_LINEAR_RESIDUAL],
                                        .out = out};
    return graft_cuda_wgmma_run(k->d, k->wgmma - 1, &g, k->op.attrs.act, &data);
}

static graft_status launch(graft_kernel *k, const void *const *in, void *out, char *workspace)
{
    if (k->wgmma && graft_cuda_aligned(in, 4, out)) return launch_wgmma(k, in, out);
    if (!k->lt || k->refused || !graft_cuda_aligned(in, 4, out)) return launch_own(k, in, out);
    graft_act act = k->op.attrs.act;
    bool geglu = act == GRAFT_ACT_GEGLU;
    graft_status st = graft_cuda_lt_run(k->d, k->lt, in[GRAFT_LINEAR_X], in[GRAFT_LINEAR_W],
                                        in[GRAFT_LINEAR_BIAS], in[GRAFT_LINEAR_RESIDUAL],
                                        geglu ? workspace : out, workspace + k->part);
    k->refused = st == GRAFT_E_UNSUPPORTED;
    if (k->refused) return launch_own(k, in, out);
    if (st || act == GRAFT_ACT_NONE) return st;
    if (geglu) return graft_cuda_fold_pairs(k, workspace, out);
    return graft_cuda_finish(k, out, act, 0, NULL, 0, NULL);
}

const graft_cuda_op graft_cuda_op_linear = {.check = check, .init = init, .launch = launch};
