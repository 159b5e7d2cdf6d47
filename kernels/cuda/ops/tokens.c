/* MATCH_TOKENS, MERGE_TOKENS, SPREAD_TOKENS. */
#include "kernels/cuda/ops/op.h"
#include "kernels/tokens.h"

#define MOST_TOKENS (1 << 24) /* which float32 can count */

static graft_status check(const graft_op_desc *op, graft_err *e)
{
    const graft_tensor_desc *x = &op->in[0], *last = op->in[1].dtype ? &op->in[1] : &op->out;
    if (x->constant) return graft_fail(e, GRAFT_E_UNSUPPORTED, "x is constant");
    if (x->dim[0] > 65535 || x->dim[1] >= MOST_TOKENS || last->dim[1] >= MOST_TOKENS)
        return graft_fail(e, GRAFT_E_UNSUPPORTED, "%lld entries of %lld tokens",
                          (long long)x->dim[0], (long long)x->dim[1]);
    return GRAFT_OK;
}

static graft_cuda_tokens shape(const graft_kernel *k, const void *const *in, const void *out)
{
    const graft_tensor_desc *x = &k->op.in[0];
    const int64_t step = 16 / (int64_t)graft_dtype_size(k->t);
    graft_cuda_tokens p = {.x = in[0],
                           .sx = {x->stride[0], x->stride[1]},
                           .tokens = (uint32_t)x->dim[1],
                           .channels = (uint32_t)x->dim[2],
                           .count = (uint32_t)(x->dim[0] * x->dim[1])};
    p.vec = graft_cuda_aligned(in, 1, out) && p.channels % 8 == 0;
    for (int i = 0; i < 2; i++) p.vec = p.vec && (x->dim[i] == 1 || p.sx[i] % step == 0);
    return p;
}

/* ------------------------------------------------------------------ MATCH_TOKENS */

/* Of each token 1 / |x|, its best cosine, and its target. */
static graft_status init_match(graft_kernel *k, int32_t variant, graft_err *e)
{
    const int64_t *dim = k->op.in[0].dim;
    (void)variant, (void)e;
    k->info.workspace_bytes = (uint64_t)(dim[0] * dim[1]) * 3 * sizeof(float);
    return GRAFT_OK;
}

static graft_status launch_match(graft_kernel *k, const void *const *in, void *out, char *workspace)
{
    const int64_t entries = k->op.in[0].dim[0];
    graft_cuda_tokens p = shape(k, in, NULL);
    graft_tokens t;
    if (!graft_tokens_of(&k->op.attrs, k->op.in[0].dim[1], &t)) return GRAFT_E_INTERNAL;
    p.length = (float *)(void *)workspace;
    p.best = p.length + p.count;
    p.found = (int32_t *)(void *)(p.best + p.count);
    p.table = out;
    p.stable = k->op.out.stride[0];
    p.rows = (uint32_t)t.rows;
    p.columns = (uint32_t)t.columns;
    p.pattern = t.pattern;
    p.left = (uint32_t)t.left;
    p.sources = (uint32_t)t.sources;
    p.targets = (uint32_t)t.targets;
    graft_status st = GRAFT_OK;
    if (t.merged)
        st = graft_cuda_launch(k->d, graft_cuda_typed(GRAFT_CUDA_FN_graft_tokens_length, k->t),
                               graft_cuda_blocks(p.count, GRAFT_CUDA_NORM_THREADS / 32), 1, 1, &p);
    if (t.merged && !st)
        st = graft_cuda_launch(k->d, graft_cuda_typed(GRAFT_CUDA_FN_graft_tokens_search, k->t),
                               graft_cuda_blocks(p.sources, 64), (uint32_t)entries, 1, &p);
    if (st) return st;
    return graft_cuda_launch(k->d, GRAFT_CUDA_FN_graft_tokens_table, (uint32_t)entries, 1, 1, &p);
}

/* ------------------------------------------------------------------ with a table */

static graft_status launch_merge(graft_kernel *k, const void *const *in, void *out, char *workspace)
{
    const graft_tensor_desc *y = &k->op.out;
    graft_cuda_tokens p = shape(k, in, out);
    (void)workspace;
    p.out = out;
    p.so[0] = y->stride[0];
    p.so[1] = y->stride[1];
    p.table = (int32_t *)(uintptr_t)in[1]; /* is only read */
    p.stable = k->op.in[1].stride[0];
    return graft_cuda_launch(k->d, graft_cuda_typed(GRAFT_CUDA_FN_graft_tokens_merge, k->t),
                             (uint32_t)y->dim[1], (uint32_t)y->dim[0], 1, &p);
}

static graft_status launch_spread(graft_kernel *k, const void *const *in, void *out,
                                  char *workspace)
{
    const graft_tensor_desc *x = &k->op.in[0], *table = &k->op.in[1];
    graft_cuda_rows p = {.src = in[0], .ids = in[1], .dst = out, .limit = x->dim[1]};
    (void)workspace;
    p.srow = x->stride[1];
    graft_cuda_shape(&k->op.out, p.dim, p.sd);
    p.sid[1] = table->stride[0];
    p.sid[2] = table->stride[1];
    p.sbatch[1] = x->stride[0];
    p.count = (uint32_t)graft_ref_elements(&k->op.out);
    p.size = (int32_t)graft_dtype_size(k->t);
    return graft_cuda_launch(k->d, GRAFT_CUDA_FN_graft_rows,
                             graft_cuda_blocks(p.count, GRAFT_CUDA_THREADS), 1, 1, &p);
}

const graft_cuda_op graft_cuda_op_match_tokens = {
    .check = check, .init = init_match, .launch = launch_match};
const graft_cuda_op graft_cuda_op_merge_tokens = {.check = check, .launch = launch_merge};
const graft_cuda_op graft_cuda_op_spread_tokens = {.check = check, .launch = launch_spread};
