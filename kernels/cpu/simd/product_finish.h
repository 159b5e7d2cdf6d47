/* What becomes of a tile of sums, for product.c and product_tiles.c: ROWS rows by two vectors of
 * outputs. LEVELS: sums may be of levels. The includer defines both. */
#ifndef GRAFT_KERNELS_CPU_SIMD_PRODUCT_FINISH_H
#define GRAFT_KERNELS_CPU_SIMD_PRODUCT_FINISH_H
#include "kernels/cpu/simd/tile.h"

#define BLOCK GRAFT_CPU_PRODUCT_BLOCK

/* Two vectors of outputs; the second may be none, and is then the first one again. */
typedef struct column {
    vf bias[2], scale[2]; /* scale: where there are levels */
    const float *w[2];    /* of the first word; the next one's are BLOCK words on */
    int64_t at[2];        /* of the results */
    int vectors;          /* of results */
} column;

/* A tile whose sums wait. */
typedef struct waiting {
    float sum[ROWS * 2 * VL];
    const column *column;
    int64_t row, rows;
} __attribute__((aligned(64))) waiting;

/* Nothing but the residual; GEGLU or gelu by tanh in the precision of the products; or anything. */
typedef enum ending { PLAIN, GEGLU, TANH, GENERAL } ending;

static ending ending_of(const graft_cpu_product *job)
{
    if (job->act == GRAFT_ACT_NONE) return PLAIN;
    if (job->out_type != job->dtype) return GENERAL;
    return job->act == GRAFT_ACT_GEGLU ? GEGLU : job->act == GRAFT_ACT_GELU_TANH ? TANH : GENERAL;
}

INLINE vf value_of(const waiting *t, const graft_cpu_product *job, int64_t r, int v)
{
    const float *sum = t->sum + (r * 2 + v) * VL;
#if LEVELS
    if (job->row_scale) {
        vf exact = (vf)_mm512_cvtepi32_ps(_mm512_load_si512(sum));
        return exact * (t->column->scale[v] * vf_set(job->row_scale[t->row + r])) +
               t->column->bias[v];
    }
#endif
    (void)job;
    return vf_load(sum) + t->column->bias[v];
}

INLINE vf gelu(vf x, bool pairs)
{
#if GRAFT_ISA_LEVEL >= 3
    if (pairs) return gelu_bf16(x);
#endif
    (void)pairs;
    return vf_gelu(x);
}

INLINE vf gelu_tanh(vf x, bool pairs)
{
#if GRAFT_ISA_LEVEL >= 3
    if (pairs) return gelu_tanh_bf16(x);
#endif
    (void)pairs;
    return vf_gelu_tanh(x);
}

INLINE void finish_vector(const waiting *t, const graft_cpu_product *job, int64_t r, int v,
                          ending how, bool pairs)
{
    int64_t row = t->row + r;
    size_t at = (size_t)t->column->at[v];
    vf x = value_of(t, job, r, v);
    if (job->residual) x = x + vf_get(job->residual[row], job->residual_type, at);
    if (how == TANH) x = gelu_tanh(x, pairs);
    if (how == GENERAL) x = vf_act(job->act, x);
    vf_put(job->out[row], job->out_type, at, x);
}

/* One row of a waiting tile. */
INLINE void finish(const waiting *t, const graft_cpu_product *job, int64_t r, ending how,
                   bool pairs)
{
    if (r >= t->rows || !job->out[t->row + r]) return;
    if (how == GEGLU || (how == GENERAL && job->act == GRAFT_ACT_GEGLU)) {
        vf x = value_of(t, job, r, 0) * gelu(value_of(t, job, r, 1), how == GEGLU && pairs);
        vf_put(job->out[t->row + r], job->out_type, (size_t)t->column->at[0], x);
        return;
    }
    finish_vector(t, job, r, 0, how, pairs);
    if (t->column->vectors > 1) finish_vector(t, job, r, 1, how, pairs);
}

static void finish_all(const waiting *t, const graft_cpu_product *job, ending how, bool pairs)
{
    for (int64_t r = 0; r < t->rows; r++) {
        if (how == PLAIN)
            finish(t, job, r, PLAIN, false);
        else if (how == GEGLU && pairs)
            finish(t, job, r, GEGLU, true);
        else if (how == TANH && pairs)
            finish(t, job, r, TANH, true);
        else
            finish(t, job, r, GENERAL, false);
    }
}

INLINE void fetch_line(const char *p, bool write)
{
    if (write)
        __builtin_prefetch(p, 1);
    else
        __builtin_prefetch(p, 0);
}

/* Two vectors of a row. */
INLINE void fetch_vectors(const void *row, graft_dtype t, int64_t at, bool write)
{
    const char *p = (const char *)row + at * (int64_t)graft_dtype_size(t);
    fetch_line(p, write);
    if (t == GRAFT_F32) fetch_line(p + VL * sizeof(float), write);
}

/* Rows are apart, which no processor foresees. Short lines of results wait for no memory. */
INLINE void fetch_row(const waiting *now, const graft_cpu_product *job, int64_t r)
{
    int64_t row = now->row + r, at = now->column->at[0];
    if (r >= now->rows || !job->out[row]) return;
    if (job->out_type == GRAFT_F32 || job->act == GRAFT_ACT_GEGLU)
        fetch_vectors(job->out[row], job->out_type, at, true);
    if (job->residual) fetch_vectors(job->residual[row], job->residual_type, at, false);
}

INLINE const float *weights_of(const graft_cpu_product *job, int64_t output)
{
    return job->weight + output / BLOCK * job->block_stride + output % BLOCK;
}

/* Vector v of the column: the outputs from `output` on, whose results go to `at`. */
INLINE void set_vector(const graft_cpu_product *job, column *c, int v, int64_t output, int64_t at)
{
    c->w[v] = weights_of(job, output);
    c->at[v] = at;
    c->bias[v] = job->bias ? vf_load(job->bias + output) : (vf){0};
#if LEVELS
    c->scale[v] = job->scale ? vf_load(job->scale + output) : (vf){0};
#endif
}

/* The output of the second vector of the column whose first is of `at`. */
INLINE int64_t second_of(const graft_cpu_product *job, int64_t at, int64_t end)
{
    if (job->act == GRAFT_ACT_GEGLU) return job->outputs / 2 + at;
    return end - at < 2 * VL ? at : at + VL;
}

/* The column of the results from `at` on; returns where the next one begins. */
INLINE int64_t open_column(const graft_cpu_product *job, int64_t at, int64_t end, column *c)
{
    int64_t second = second_of(job, at, end);
    c->vectors = second == at + VL ? 2 : 1;
    set_vector(job, c, 0, at, at);
    set_vector(job, c, 1, second, at + VL);
    return at + c->vectors * VL;
}
#endif
