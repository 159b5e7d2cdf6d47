/* MERGE_TOKENS: rows of the result are shared out; each goes through a list of its tokens. */
#include <string.h>

#include "kernels/cpu/cpu.h"

typedef struct merge_state {
    int threads;
    size_t at_first, at_next, at_thread, scratch; /* in the workspace; bytes for one thread */
} merge_state;

static graft_status check(graft_device *d, const graft_op_desc *op, graft_err *e)
{
    graft_status st;
    (void)d;
    GRAFT_TRY(graft_cpu_check_table(op, "merge_tokens", e));
    if (op->in[1].dim[1] != op->in[0].dim[1] || op->out.dim[1] != op->attrs.groups)
        st = graft_fail(e, GRAFT_E_ARG,
                        "merge_tokens: shapes must be (N,T,C) (N,T) -> (N,groups,C)");
out:
    return st;
}

static graft_status init(graft_kernel *k, int32_t variant, graft_err *e)
{
    const graft_tensor_desc *x = &k->op.in[0], *y = &k->op.out;
    merge_state *s = k->state = graft_cpu_calloc(k->d, sizeof *s);
    size_t end = 0;
    (void)variant;
    if (!s) return graft_fail_nomem(e, "a merger");
    s->threads = graft_cpu_threads(k->d, graft_cpu_elements(x));
    if (s->threads > y->dim[1]) s->threads = (int)y->dim[1];
    s->at_first = graft_cpu_reserve(&end, (size_t)y->dim[1] * sizeof(int32_t));
    s->at_next = graft_cpu_reserve(&end, (size_t)x->dim[1] * sizeof(int32_t));
    s->at_thread = end;
    graft_cpu_reserve(&s->scratch, (size_t)x->dim[2] * sizeof(float));
    k->info.workspace_bytes = end + s->scratch * (size_t)s->threads;
    return GRAFT_OK;
}

typedef struct job {
    const graft_kernel *k;
    const void *x;
    void *y;
    const int32_t *first, *next; /* token of a row, or behind a token; -1: none */
    char *scratch;
} job;

static void merge_row(const job *j, int64_t row, float *sum)
{
    const graft_tensor_desc *x = &j->k->op.in[0], *y = &j->k->op.out;
    const graft_cpu_simd *simd = j->k->d->simd;
    const size_t n = (size_t)x->dim[2];
    void *to = graft_cpu_at_mut(j->y, y->dtype, row * y->stride[1]);
    int32_t token = j->first[row], count = 0;
    if (token < 0 || j->next[token] < 0) {
        if (token < 0)
            memset(to, 0, n * graft_dtype_size(y->dtype));
        else
            memcpy(to, graft_cpu_at(j->x, x->dtype, token * x->stride[1]),
                   n * graft_dtype_size(y->dtype));
        return;
    }
    for (; token >= 0; token = j->next[token], count++) {
        const void *from = graft_cpu_at(j->x, x->dtype, token * x->stride[1]);
        if (!count)
            simd->act(GRAFT_ACT_NONE, from, x->dtype, sum, GRAFT_F32, n);
        else
            simd->add(sum, GRAFT_F32, from, x->dtype, sum, GRAFT_F32, n);
    }
    simd->scale(sum, GRAFT_F32, to, y->dtype, n, 1 / (float)count, 0);
}

static void rows_part(void *p, int part, int parts)
{
    const job *j = p;
    const merge_state *s = j->k->state;
    const int64_t rows = j->k->op.out.dim[1], end = rows * (part + 1) / parts;
    for (int64_t i = rows * part / parts; i < end; i++)
        merge_row(j, i, (float *)(void *)(j->scratch + s->scratch * (size_t)part));
}

/* The tokens of each row, in their order. */
static void list(const int32_t *table, int64_t tokens, int64_t rows, int32_t *first, int32_t *next)
{
    for (int64_t r = 0; r < rows; r++) first[r] = -1;
    for (int64_t i = tokens - 1; i >= 0; i--) {
        if (table[i] < 0 || table[i] >= rows) continue;
        next[i] = first[table[i]];
        first[table[i]] = (int32_t)i;
    }
}

static graft_status launch(graft_kernel *k, const void *const *in, void *out, void *workspace)
{
    const merge_state *s = k->state;
    const graft_tensor_desc *x = &k->op.in[0], *y = &k->op.out;
    char *ws = workspace;
    int32_t *first = (int32_t *)(void *)(ws + s->at_first);
    int32_t *next = (int32_t *)(void *)(ws + s->at_next);
    for (int64_t b = 0; b < x->dim[0]; b++) {
        job j = {.k = k,
                 .x = graft_cpu_at(in[0], x->dtype, b * x->stride[0]),
                 .y = graft_cpu_at_mut(out, y->dtype, b * y->stride[0]),
                 .first = first,
                 .next = next,
                 .scratch = ws + s->at_thread};
        list((const int32_t *)in[1] + b * k->op.in[1].stride[0], x->dim[1], y->dim[1], first, next);
        graft_cpu_parallel(s->threads, rows_part, &j);
    }
    return GRAFT_OK;
}

const graft_cpu_op graft_cpu_op_merge_tokens = {check, init, NULL, NULL, launch, NULL};
