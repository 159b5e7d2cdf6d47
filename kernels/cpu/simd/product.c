/* float32 LINEAR. A tile is ROWS rows by two vectors of outputs, whose sums stay in registers over
 * all inputs; what follows the products is done on them right there. */
#include "kernels/cpu/simd/functions.h"

#if GRAFT_ISA_LEVEL >= 1

#define BLOCK GRAFT_CPU_PRODUCT_BLOCK
#define ROWS  (VL == 16 ? 12 : 6) /* what registers hold */

/* Two vectors of outputs, or one. */
typedef struct column {
    const float *w[2]; /* of the first input; the next one's are BLOCK floats on */
    int64_t at[2];     /* of the results */
    vf bias[2];
} column;

/* Sums of `rows` rows from `row` on. */
INLINE void tile(const graft_cpu_product *job, int rows, int vectors, const column *c, int64_t row,
                 vf sum[ROWS][2])
{
    const float *x[4], *w = c->w[0], *v = c->w[1];
    int64_t s = job->stride;
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) x[i] = job->x + (row + (3 * i < rows ? 3 * i : 0)) * s;
#pragma GCC unroll 12
    for (int r = 0; r < rows; r++) sum[r][0] = sum[r][1] = (vf){0};
#pragma GCC unroll 1
    for (int64_t i = 0; i < job->inputs; i++, w += BLOCK, v += BLOCK) {
        vf b[2] = {vf_load(w), vectors > 1 ? vf_load(v) : (vf){0}};
#pragma GCC unroll 12
        for (int r = 0; r < rows; r++) {
            vf a = vf_set(x[r / 3][r % 3 * s + i]);
            sum[r][0] = sum[r][0] + a * b[0];
            if (vectors > 1) sum[r][1] = sum[r][1] + a * b[1];
        }
    }
}

/* What follows the products for one vector of results. */
INLINE void finish(const graft_cpu_product *job, int64_t row, int64_t at, vf x)
{
    if (job->residual) x = x + vf_get(job->residual[row], job->residual_type, (size_t)at);
    vf_store(job->out[row] + at, job->act == GRAFT_ACT_GEGLU ? x : vf_act(job->act, x));
}

INLINE void rows_of(const graft_cpu_product *job, int rows, int vectors, const column *c,
                    int64_t row)
{
    vf sum[ROWS][2];
    tile(job, rows, vectors, c, row, sum);
#pragma GCC unroll 12
    for (int r = 0; r < rows; r++) {
        vf x = sum[r][0] + c->bias[0], y = sum[r][1] + c->bias[1];
        if (job->act == GRAFT_ACT_GEGLU) {
            finish(job, row + r, c->at[0], x * vf_gelu(y));
            continue;
        }
        finish(job, row + r, c->at[0], x);
        if (vectors > 1) finish(job, row + r, c->at[1], y);
    }
}

INLINE void all_rows(const graft_cpu_product *job, int vectors, const column *c)
{
    int64_t row = 0;
    for (; row + ROWS <= job->rows; row += ROWS) rows_of(job, ROWS, vectors, c, row);
    for (; row + 4 <= job->rows; row += 4) rows_of(job, 4, vectors, c, row);
    for (; row + 2 <= job->rows; row += 2) rows_of(job, 2, vectors, c, row);
    for (; row < job->rows; row++) rows_of(job, 1, vectors, c, row);
}

/* Vector v of the column: the outputs from `output` on, whose results go to `at`. */
INLINE void set_vector(const graft_cpu_product *job, column *c, int v, int64_t output, int64_t at)
{
    c->w[v] = job->weight + output / BLOCK * job->block_stride + output % BLOCK;
    c->at[v] = at;
    c->bias[v] = job->bias ? vf_load(job->bias + output) : (vf){0};
}

void SIMD(product)(const graft_cpu_product *job, int64_t first, int64_t panels)
{
    bool geglu = job->act == GRAFT_ACT_GEGLU;
    int64_t at = first * BLOCK, end = at + panels * BLOCK;
    column c;
    while (at < end) {
        bool pair = !geglu && end - at >= 2 * VL;
        set_vector(job, &c, 0, at, at);
        set_vector(job, &c, 1, geglu ? job->outputs / 2 + at : pair ? at + VL : at, at + VL);
        if (geglu || pair)
            all_rows(job, 2, &c);
        else
            all_rows(job, 1, &c);
        at += pair ? 2 * VL : VL;
    }
}
#endif
