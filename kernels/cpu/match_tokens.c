/* MATCH_TOKENS: sources and targets are laid out apart, and the products of all with all are made
 * in tiles, of which only each source's best is kept.
 *
 * A tile is one product by oneDNN on one thread, always of the same size, so that neither the
 * number of threads nor a token's neighbours change a bit; lengths are divided out afterwards. Rows
 * that fill up the last tiles are zeros and count as nothing. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "kernels/cpu/primitive.h"
#include "kernels/tokens.h"

#define TILE_SOURCES 128
#define TILE_TARGETS 512
#define LANES        16

typedef struct match_state {
    graft_tokens of;
    graft_cpu_primitive product;
    graft_dtype type;      /* of what is multiplied */
    int64_t rows, columns; /* of a tile */
    int64_t row_tiles, column_tiles, width;
    int gather_threads, threads;
    int scratchpad; /* its place among the arguments, or -1 */
    size_t at_source, at_target, at_length, at_own, at_best, at_found, at_thread;
    size_t at_pad, scratch; /* of a thread: where the scratchpad is, and bytes of all */
    int32_t token[];        /* of each source, then of each target */
} match_state;

static graft_status check(graft_device *d, const graft_op_desc *op, graft_err *e)
{
    graft_status st;
    graft_tokens t;
    const graft_tensor_desc *x = &op->in[0], *y = &op->out;
    (void)d;
    GRAFT_TRY(graft_cpu_check_float(x, 3, "match_tokens: x", e));
    GRAFT_TRY(graft_cpu_check_tensor(y, "match_tokens: output", e));
    GRAFT_TRY(graft_cpu_check_absent(op, 1, e));
    if (x->constant || y->dtype != GRAFT_I32)
        return graft_fail(e, GRAFT_E_UNSUPPORTED, "match_tokens: x must vary, the output be int32");
    if (y->rank != 2 || y->dim[0] != x->dim[0] || y->dim[1] != x->dim[1])
        return graft_fail(e, GRAFT_E_ARG, "match_tokens: shapes must be (N,T,C) -> (N,T)");
    if (!graft_tokens_of(&op->attrs, x->dim[1], &t))
        st = graft_fail(e, GRAFT_E_ARG, "match_tokens: %d of %lld tokens left, in %d x %d",
                        (int)op->attrs.groups, (long long)x->dim[1], (int)op->attrs.up_h,
                        (int)op->attrs.up_w);
out:
    return st;
}

/* The product of a tile of sources by the transposed one of targets. */
static graft_status compile(graft_kernel *k, match_state *s, size_t *scratchpad, graft_err *e)
{
    graft_status st;
    dnnl_memory_desc_t a, b, c;
    dnnl_matmul_desc_t matmul;
    dnnl_primitive_attr_t attr = NULL;
    dnnl_primitive_desc_t pd = NULL;
    int args = 3, arg[GRAFT_CPU_ARGS] = {DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST};
    const int64_t n = s->width;
    const int before = graft_cpu_threads_set(1);
    GRAFT_TRY(graft_cpu_md(&a, 2, (int64_t[]){s->rows, n}, (int64_t[]){n, 1}, s->type, e));
    GRAFT_TRY(graft_cpu_md(&b, 2, (int64_t[]){n, s->columns}, (int64_t[]){1, n}, s->type, e));
    GRAFT_TRY(graft_cpu_md(&c, 2, (int64_t[]){s->rows, s->columns}, (int64_t[]){s->columns, 1},
                           GRAFT_F32, e));
    GRAFT_TRY(graft_cpu_attr_create(&attr, NULL, GRAFT_ACT_NONE, e));
    dnnl_status_t ds = dnnl_matmul_desc_init(&matmul, &a, &b, NULL, &c);
    if (!ds) ds = dnnl_primitive_desc_create(&pd, &matmul, attr, k->d->engine, NULL);
    GRAFT_TRY(graft_cpu_dnnl_fail(ds, "match_tokens", e));
    *scratchpad =
        dnnl_memory_desc_get_size(dnnl_primitive_desc_query_md(pd, dnnl_query_scratchpad_md, 0));
    s->scratchpad = *scratchpad ? args : -1;
    if (*scratchpad) arg[args++] = DNNL_ARG_SCRATCHPAD;
    snprintf(k->info.variant, sizeof k->info.variant, "tiles of %s", graft_cpu_primitive_name(pd));
    st = graft_cpu_primitive_init(&s->product, k->d->engine, pd, arg, args, e);
out:
    graft_cpu_threads_set(before);
    if (pd) dnnl_primitive_desc_destroy(pd);
    if (attr) dnnl_primitive_attr_destroy(attr);
    return st;
}

static int64_t rounded(int64_t n, int64_t to)
{
    return graft_cpu_pieces(n, to) * to;
}

static void cut(match_state *s)
{
    const int64_t sources = rounded(s->of.sources, LANES), targets = rounded(s->of.targets, LANES);
    s->rows = sources < TILE_SOURCES ? sources : TILE_SOURCES;
    s->columns = targets < TILE_TARGETS ? targets : TILE_TARGETS;
    s->row_tiles = graft_cpu_pieces(s->of.sources, s->rows);
    s->column_tiles = graft_cpu_pieces(s->of.targets, s->columns);
}

static void lay_out(graft_kernel *k, match_state *s, size_t scratchpad)
{
    const size_t size = graft_dtype_size(s->type), width = (size_t)s->width;
    const size_t sources = (size_t)(s->row_tiles * s->rows);
    const size_t targets = (size_t)(s->column_tiles * s->columns);
    size_t end = 0;
    s->at_source = graft_cpu_reserve(&end, sources * width * size);
    s->at_target = graft_cpu_reserve(&end, targets * width * size);
    s->at_length = graft_cpu_reserve(&end, targets * sizeof(float));
    s->at_own = graft_cpu_reserve(&end, sources * sizeof(float));
    s->at_best = graft_cpu_reserve(&end, sources * sizeof(float));
    s->at_found = graft_cpu_reserve(&end, sources * sizeof(int32_t));
    s->at_thread = end;
    graft_cpu_reserve(&s->scratch, (size_t)(s->rows * s->columns) * sizeof(float));
    s->at_pad = graft_cpu_reserve(&s->scratch, scratchpad);
    k->info.workspace_bytes = end + s->scratch * (size_t)s->threads;
}

static graft_status init(graft_kernel *k, int32_t variant, graft_err *e)
{
    const graft_tensor_desc *x = &k->op.in[0];
    graft_tokens of;
    (void)variant;
    if (!graft_tokens_of(&k->op.attrs, x->dim[1], &of))
        return graft_fail(e, GRAFT_E_INTERNAL, "match_tokens: not checked");
    match_state *s = graft_cpu_calloc(k->d, sizeof *s + (size_t)x->dim[1] * sizeof s->token[0]);
    if (!s) return graft_fail_nomem(e, "a search for like tokens");
    k->state = s;
    s->of = of;
    s->width = x->dim[2];
    int32_t *source = s->token, *target = s->token + of.sources;
    for (int64_t i = 0; i < x->dim[1]; i++)
        *(graft_tokens_is_target(&of, i) ? target++ : source++) = (int32_t)i;
    if (!of.merged) return GRAFT_OK;
    s->type = x->dtype == GRAFT_BF16 && graft_cpu_multiplies_bf16() ? GRAFT_BF16 : GRAFT_F32;
    cut(s);
    s->gather_threads = graft_cpu_threads(k->d, x->dim[1] * s->width);
    /* In double: the product may be larger than any tensor. */
    const double work = (double)of.sources * (double)of.targets * (double)s->width / 16;
    s->threads = graft_cpu_threads(k->d, work < 1e15 ? (int64_t)work : (int64_t)1e15);
    if (s->threads > s->row_tiles) s->threads = (int)s->row_tiles;
    size_t scratchpad = 0;
    graft_status st = compile(k, s, &scratchpad, e);
    if (!st) lay_out(k, s, scratchpad);
    return st;
}

static void finish(graft_kernel *k)
{
    match_state *s = k->state;
    if (s) graft_cpu_primitive_finish(&s->product);
}

/* One entry of the batch. */
typedef struct job {
    const graft_kernel *k;
    const match_state *s;
    const void *x;
    char *ws;
    graft_cpu_primitive *product;
    atomic_int *failed;
} job;

static float *floats(const job *j, size_t at)
{
    return (float *)(void *)(j->ws + at);
}

/* 1 / |row|, or 0 where that is none: of float32 or the upper halves of it. */
static float inverse_length(const void *row, graft_dtype t, int64_t n)
{
    float lane[LANES] = {0};
    double sum = 0;
    int64_t i = 0;
    if (t == GRAFT_F32) {
        const float *v = row;
        for (; i + LANES <= n; i += LANES)
            for (int l = 0; l < LANES; l++) lane[l] += v[i + l] * v[i + l];
        for (; i < n; i++) sum += (double)v[i] * (double)v[i];
    } else {
        const uint16_t *v = row;
        for (; i + LANES <= n; i += LANES)
            for (int l = 0; l < LANES; l++) {
                const float f = graft_bf16_to_f32(v[i + l]);
                lane[l] += f * f;
            }
        for (; i < n; i++) {
            const double f = (double)graft_bf16_to_f32(v[i]);
            sum += f * f;
        }
    }
    for (int l = 0; l < LANES; l++) sum += (double)lane[l];
    return sum > 0 && sum < INFINITY ? (float)(1 / sqrt(sum)) : 0;
}

/* Row `to` of sources or targets; token -1: one that only fills up, whose length is `empty`. */
static void lay(const job *j, int32_t token, char *rows, float *length, int64_t to, float empty)
{
    const match_state *s = j->s;
    const graft_tensor_desc *x = &j->k->op.in[0];
    const size_t bytes = (size_t)s->width * graft_dtype_size(s->type);
    void *row = rows + (size_t)to * bytes;
    if (token < 0) {
        memset(row, 0, bytes);
        length[to] = empty;
        return;
    }
    const void *from = graft_cpu_at(j->x, x->dtype, token * x->stride[1]);
    if (x->dtype == s->type)
        memcpy(row, from, bytes);
    else
        j->k->d->simd->act(GRAFT_ACT_NONE, from, x->dtype, row, s->type, (size_t)s->width);
    length[to] = inverse_length(row, s->type, s->width);
}

static void gather_part(void *p, int part, int parts)
{
    const job *j = p;
    const match_state *s = j->s;
    const int64_t sources = s->row_tiles * s->rows, all = sources + s->column_tiles * s->columns;
    const int64_t end = all * (part + 1) / parts;
    for (int64_t i = all * part / parts; i < end; i++) {
        const int64_t k = i - sources;
        if (k < 0)
            lay(j, i < s->of.sources ? s->token[i] : -1, j->ws + s->at_source, floats(j, s->at_own),
                i, 0);
        else /* nothing is less than no number, which is not found then */
            lay(j, k < s->of.targets ? s->token[s->of.sources + k] : -1, j->ws + s->at_target,
                floats(j, s->at_length), k, NAN);
    }
}

static void search_tile(const job *j, int64_t tile, char *scratch)
{
    const match_state *s = j->s;
    const size_t bytes = (size_t)s->width * graft_dtype_size(s->type);
    const int64_t first = tile * s->rows;
    float *score = (float *)(void *)scratch, *best = floats(j, s->at_best) + first;
    int32_t *found = (int32_t *)(void *)(j->ws + s->at_found) + first;
    void *handle[GRAFT_CPU_ARGS] = {j->ws + s->at_source + (size_t)first * bytes, NULL, score};
    if (s->scratchpad >= 0) handle[s->scratchpad] = scratch + s->at_pad;
    for (int64_t r = 0; r < s->rows; r++) {
        best[r] = -INFINITY;
        found[r] = 0;
    }
    for (int64_t c = 0; c < s->column_tiles; c++) {
        const int64_t at = c * s->columns;
        handle[1] = j->ws + s->at_target + (size_t)at * bytes;
        if (graft_cpu_primitive_run(j->product, handle)) atomic_store(j->failed, 1);
        for (int64_t r = 0; r < s->rows; r++)
            j->k->d->simd->peak(score + r * s->columns, floats(j, s->at_length) + at,
                                (size_t)s->columns, (int32_t)at, &best[r], &found[r]);
    }
    for (int64_t r = 0; r < s->rows; r++) best[r] *= floats(j, s->at_own)[first + r];
}

static void search_part(void *p, int part, int parts)
{
    const job *j = p;
    const match_state *s = j->s;
    const int before = graft_cpu_threads_set(1);
    const int64_t end = s->row_tiles * (part + 1) / parts;
    for (int64_t i = s->row_tiles * part / parts; i < end; i++)
        search_tile(j, i, j->ws + s->at_thread + s->scratch * (size_t)part);
    graft_cpu_threads_set(before);
}

/* A number that is larger where the cosine is; both zeros are the same, and what is no number is
 * less than all. */
static uint32_t rank_of(float cosine)
{
    uint32_t bits;
    if (isnan(cosine)) return 0;
    cosine += 0.0f;
    memcpy(&bits, &cosine, sizeof bits);
    return bits >> 31 ? ~bits : bits | 0x80000000u;
}

/* The least rank that is merged; *ties: how many of the sources that have it. Digit by digit, from
 * the highest. */
static uint32_t least_merged(const float *best, int64_t sources, int64_t merged, int64_t *ties)
{
    uint32_t least = 0;
    int64_t rest = merged;
    for (int shift = 24; shift >= 0; shift -= 8) {
        int64_t count[256] = {0};
        for (int64_t i = 0; i < sources; i++) {
            const uint32_t rank = rank_of(best[i]);
            if (shift == 24 || rank >> (shift + 8) == least >> (shift + 8))
                count[rank >> shift & 255]++;
        }
        int digit = 255;
        while (digit > 0 && count[digit] < rest) rest -= count[digit--];
        least |= (uint32_t)digit << shift;
    }
    *ties = rest;
    return least;
}

static void fill_table(const job *j, int32_t *table)
{
    const match_state *s = j->s;
    const int64_t sources = s->of.sources, tokens = sources + s->of.targets;
    const int32_t *found = (const int32_t *)(const void *)(j->ws + s->at_found);
    const float *best = floats(j, s->at_best);
    int64_t ties;
    int32_t row = 0;
    const uint32_t least = least_merged(best, sources, s->of.merged, &ties);
    for (int64_t i = 0; i < tokens; i++) table[i] = 0;
    for (int64_t i = 0; i < sources; i++) {
        const uint32_t rank = rank_of(best[i]);
        if (rank > least || (rank == least && ties-- > 0))
            table[s->token[i]] = -1 - s->token[sources + found[i]];
    }
    for (int64_t i = 0; i < tokens; i++)
        if (table[i] >= 0) table[i] = row++;
    for (int64_t i = 0; i < tokens; i++)
        if (table[i] < 0) table[i] = table[-1 - table[i]];
}

static graft_status launch(graft_kernel *k, const void *const *in, void *out, void *workspace)
{
    match_state *s = k->state;
    const graft_tensor_desc *x = &k->op.in[0];
    atomic_int failed = 0;
    for (int64_t b = 0; b < x->dim[0]; b++) {
        int32_t *table = (int32_t *)out + b * k->op.out.stride[0];
        job j = {.k = k,
                 .s = s,
                 .x = graft_cpu_at(in[0], x->dtype, b * x->stride[0]),
                 .ws = workspace,
                 .product = &s->product,
                 .failed = &failed};
        if (!s->of.merged) {
            for (int32_t i = 0; i < x->dim[1]; i++) table[i] = i;
            continue;
        }
        graft_cpu_parallel(s->gather_threads, gather_part, &j);
        graft_cpu_parallel(s->threads, search_part, &j);
        if (atomic_load(&failed)) return GRAFT_E_DEVICE;
        fill_table(&j, table);
    }
    return GRAFT_OK;
}

const graft_cpu_op graft_cpu_op_match_tokens = {check, init, finish, NULL, launch, NULL};
