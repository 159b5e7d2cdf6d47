#include "kernels/cuda/ops/attention_wide.h"

#include "kernels/cuda/libs/lt.h"
#include "kernels/cuda/ops/quant.h"

enum { LEAST_HEAD = 161, MOST_PARTS = 64, ROWS = 64 };
#define MOST_BYTES ((int64_t)112 << 20)

static int64_t head_dim_of(const graft_op_desc *op)
{
    return op->out.dim[2] / op->attrs.heads;
}

static bool rows_fit(const graft_tensor_desc *t)
{
    return t->stride[0] % 8 == 0 && t->stride[1] % 8 == 0 && t->stride[1] > 0;
}

bool graft_cuda_wide_possible(const graft_kernel *k)
{
    const graft_op_desc *op = &k->op;
    bool yes = k->d->lt && k->t != GRAFT_F32 && !op->attrs.causal && op->attrs.scale > 0 &&
               !graft_cuda_present(&op->in[GRAFT_ATTENTION_BIAS]) &&
               !graft_cuda_present(&op->in[GRAFT_ATTENTION_COUNT]) &&
               head_dim_of(op) >= LEAST_HEAD && head_dim_of(op) % 8 == 0 && rows_fit(&op->out) &&
               op->out.dim[0] * op->attrs.heads <= MOST_PARTS;
    for (int i = 0; i < 3; i++) yes = yes && rows_fit(&op->in[i]);
    return yes;
}

/* From row to row of scores and of shares: multiples of 16 bytes. */
static int64_t pitch_of(const graft_op_desc *op)
{
    return (op->in[1].dim[1] + 7) / 8 * 8;
}

/* Of scores and shares at once: small devices have less to spare. */
static int64_t most_bytes(const graft_device *d)
{
    int64_t spare = (int64_t)(d->info.memory_total / 64);
    return spare < MOST_BYTES ? spare : MOST_BYTES;
}

/* Queries at once: parts of equal size, in rows of tiles. The last part begins so that it ends with
 * the queries; what it has in common with the one before is computed twice. */
static int64_t part_of(const graft_kernel *k)
{
    const graft_op_desc *op = &k->op;
    int64_t queries = op->out.dim[1], most = most_bytes(k->d) / (pitch_of(op) * 6) / ROWS * ROWS;
    if (most < ROWS) most = ROWS;
    int64_t parts = (queries + most - 1) / most;
    int64_t part = ((queries + parts - 1) / parts + ROWS - 1) / ROWS * ROWS;
    return part < queries ? part : queries;
}

graft_status graft_cuda_wide_init(graft_kernel *k)
{
    const graft_op_desc *op = &k->op;
    int64_t part = part_of(k), pitch = pitch_of(op), keys = op->in[1].dim[1];
    const graft_cuda_gemm scores = {.dtype = k->t,
                                    .m = part,
                                    .n = keys,
                                    .k = head_dim_of(op),
                                    .ldx = op->in[0].stride[1],
                                    .ldw = op->in[1].stride[1],
                                    .ldo = pitch,
                                    .wide = true};
    const graft_cuda_gemm sums = {.dtype = k->t,
                                  .m = part,
                                  .n = head_dim_of(op),
                                  .k = keys,
                                  .ldx = pitch,
                                  .ldw = op->in[2].stride[1],
                                  .ldo = op->out.stride[1],
                                  .by_rows = true};
    int32_t count = 0;
    uint64_t end = 0;
    graft_status st = graft_cuda_lt_plan_create(k->d->lt, &scores, 0, &k->lt, &count);
    if (!st) st = graft_cuda_lt_plan_create(k->d->lt, &sums, 0, &k->lt_sums, &count);
    if (st) {
        graft_cuda_lt_plan_destroy(k->lt);
        k->lt = NULL;
        return st;
    }
    uint64_t first = graft_cuda_lt_workspace(k->lt), second = graft_cuda_lt_workspace(k->lt_sums);
    k->at.wide = graft_cuda_reserve(&end, (uint64_t)(part * pitch) * sizeof(float));
    k->at.level = graft_cuda_reserve(&end, (uint64_t)(part * pitch) * 2);
    k->part = graft_cuda_reserve(&end, first > second ? first : second);
    k->info.workspace_bytes = end;
    return GRAFT_OK;
}

/* `part` queries of one head of one picture. */
static graft_status run_part(graft_kernel *k, const uint16_t *q, const uint16_t *key,
                             const uint16_t *v, uint16_t *out, char *ws)
{
    graft_cuda_shares p = {.scores = (const float *)(const void *)(ws + k->at.wide),
                           .shares = ws + k->at.level,
                           .ld = pitch_of(&k->op),
                           .keys = (int32_t)k->op.in[1].dim[1],
                           .scale = k->op.attrs.scale * 1.4426950408889634f};
    char *more = ws + k->part;
    graft_status st = graft_cuda_lt_run(k->d, k->lt, q, key, NULL, NULL, ws + k->at.wide, more);
    if (!st)
        st = graft_cuda_launch(k->d,
                               k->t == GRAFT_F16 ? GRAFT_CUDA_FN_graft_shares_f16
                                                 : GRAFT_CUDA_FN_graft_shares_bf16,
                               (uint32_t)part_of(k), 1, 1, &p);
    if (!st) st = graft_cuda_lt_run(k->d, k->lt_sums, p.shares, v, NULL, NULL, out, more);
    return st;
}

graft_status graft_cuda_wide_run(graft_kernel *k, const void *const *in, void *out, char *workspace)
{
    const graft_op_desc *op = &k->op;
    const graft_tensor_desc *q = &op->in[0], *key = &op->in[1], *v = &op->in[2];
    int64_t heads = op->attrs.heads, queries = op->out.dim[1], part = part_of(k);
    graft_status st = GRAFT_OK;
    for (int64_t i = 0; i < op->out.dim[0] * heads && !st; i++) {
        int64_t n = i / heads, c = i % heads * head_dim_of(op);
        for (int64_t at = 0; at < queries && !st; at += part) {
            int64_t row = at + part > queries ? queries - part : at;
            st = run_part(k, (const uint16_t *)in[0] + n * q->stride[0] + row * q->stride[1] + c,
                          (const uint16_t *)in[1] + n * key->stride[0] + c,
                          (const uint16_t *)in[2] + n * v->stride[0] + c,
                          (uint16_t *)out + n * op->out.stride[0] + row * op->out.stride[1] + c,
                          workspace);
        }
    }
    return st;
}
