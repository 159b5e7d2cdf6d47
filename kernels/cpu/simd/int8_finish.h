/* What int8 LINEAR's own products share (int8.c, int8_tiles.c): what becomes of the sums of a tile
 * of ROWS rows, which the includer defines, by a panel of outputs. */
#ifndef GRAFT_KERNELS_CPU_SIMD_INT8_FINISH_H
#define GRAFT_KERNELS_CPU_SIMD_INT8_FINISH_H
#include "kernels/cpu/simd/tile.h"

#define PV 2 /* vectors of outputs in a panel */
_Static_assert(PV *VL == GRAFT_CPU_INT8_PANEL, "the layout of packed weights");

/* What a panel's outputs are scaled by and what is added; twice, since the tile that is finished
 * may belong to the panel before. */
typedef struct panel {
    float scale[PV * VL], bias[PV * VL];
    int64_t first, count; /* outputs in memory: of a vector; the last panel's may be fewer */
} panel;

/* A tile whose sums wait. */
typedef struct waiting {
    int32_t sum[ROWS * PV * VL];
    const panel *panel;
    int64_t row, rows;
} __attribute__((aligned(64))) waiting;

INLINE vf value_of(const waiting *t, const graft_cpu_int8 *job, int64_t r, int v)
{
    vf sum = (vf)_mm512_cvtepi32_ps(_mm512_load_si512(t->sum + (r * PV + v) * VL));
    vf factor = vf_load(t->panel->scale + v * VL) * vf_set(job->row_scale[t->row + r]);
    return sum * factor + vf_load(t->panel->bias + v * VL);
}

/* What follows the products: nothing but the residual; GEGLU or gelu by tanh to bf16; or anything.
 */
typedef enum ending { PLAIN, GEGLU_BF16, TANH_BF16, GENERAL } ending;

static ending ending_of(const graft_cpu_int8 *job)
{
    if (job->act == GRAFT_ACT_NONE) return PLAIN;
    if (job->out_type != GRAFT_BF16) return GENERAL;
    return job->act == GRAFT_ACT_GEGLU       ? GEGLU_BF16
           : job->act == GRAFT_ACT_GELU_TANH ? TANH_BF16
                                             : GENERAL;
}

INLINE void finish_geglu(const waiting *t, const graft_cpu_int8 *job, int64_t r, bool exact)
{
    vf x = value_of(t, job, r, 0), gate = value_of(t, job, r, 1);
    x = x * (exact ? vf_gelu(gate) : gelu_bf16(gate));
    put(job->out[t->row + r], exact ? job->out_type : GRAFT_BF16, t->panel->first, t->panel->count,
        x);
}

INLINE void finish_vector(const waiting *t, const graft_cpu_int8 *job, int64_t r, int v, ending how)
{
    int64_t at = t->panel->first + v * VL, left = t->panel->count - v * VL;
    vf x = value_of(t, job, r, v);
    if (left <= 0) return;
    if (job->residual) {
        const void *y = job->residual[t->row + r];
        x = x + (left >= VL ? vf_get(y, job->residual_type, (size_t)at)
                            : vf_get_tail(y, job->residual_type, (size_t)at, (size_t)left));
    }
    if (how == TANH_BF16) x = gelu_tanh_bf16(x);
    if (how == GENERAL) x = vf_act(job->act, x);
    put(job->out[t->row + r], how == TANH_BF16 ? GRAFT_BF16 : job->out_type, at, left, x);
}

/* One row of a waiting tile. */
INLINE void finish(const waiting *t, const graft_cpu_int8 *job, int64_t r, ending how)
{
    if (r >= t->rows) return;
    if (how == GEGLU_BF16) {
        finish_geglu(t, job, r, false);
    } else if (how == GENERAL && job->act == GRAFT_ACT_GEGLU) {
        finish_geglu(t, job, r, true);
    } else {
        finish_vector(t, job, r, 0, how);
        finish_vector(t, job, r, 1, how);
    }
}

/* Rows are apart, which no processor foresees. */
INLINE void fetch_row(const waiting *now, const graft_cpu_int8 *job, int64_t r)
{
    if (!job->residual || r >= now->rows) return;
    _mm_prefetch((const char *)job->residual[now->row + r] +
                     now->panel->first * graft_dtype_size(job->residual_type),
                 _MM_HINT_T0);
}

static void finish_all(const waiting *t, const graft_cpu_int8 *job, ending how)
{
    for (int64_t r = 0; r < t->rows; r++) {
        if (how == PLAIN)
            finish(t, job, r, PLAIN);
        else if (how == GEGLU_BF16)
            finish(t, job, r, GEGLU_BF16);
        else if (how == TANH_BF16)
            finish(t, job, r, TANH_BF16);
        else
            finish(t, job, r, GENERAL);
    }
}

static void open_panel(panel *p, const graft_cpu_int8 *job, int64_t number)
{
    bool geglu = job->act == GRAFT_ACT_GEGLU;
    int64_t wide = geglu ? VL : PV * VL, all = geglu ? job->outputs / 2 : job->outputs;
    p->first = number * wide;
    p->count = all - p->first < wide ? all - p->first : wide;
    for (int v = 0; v < PV; v++) {
        int64_t at = p->first + v * (geglu ? all : VL), n = geglu ? p->count : p->count - v * VL;
        fill(p->scale + v * VL, job->scale, at, n);
        fill(p->bias + v * VL, job->bias, at, n);
    }
}
#endif
