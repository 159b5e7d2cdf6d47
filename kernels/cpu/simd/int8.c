/* int8 LINEAR with VNNI instructions. A tile is ROWS rows by a panel of outputs, whose sums stay in
 * registers over all inputs. Products keep one pipe busy in every cycle, so all else must go on
 * beside them: what becomes of a tile's sums is computed while the products of the next tile are
 * under way. */
#include <float.h>

#include "kernels/cpu/simd/functions.h"

#if GRAFT_ISA_LEVEL >= 3

#define ROWS GRAFT_CPU_INT8_ROWS
#define PV   2 /* vectors of outputs in a panel */
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

/* A macro, since compilers copy sums to and fro when the instruction is a function. */
#define DOT(sum, x, w) __asm__("vpdpbusd %2, %1, %0" : "+v"(sum) : "v"(x), "v"(w))

/* In halves: many whole stores in a row hold up the products that follow them. */
INLINE void store_halves(int32_t *p, __m512i v)
{
    _mm256_store_si256((void *)p, _mm512_castsi512_si256(v));
    _mm256_store_si256((void *)(p + VL / 2), _mm512_extracti32x8_epi32(v, 1));
}

INLINE vf value_of(const waiting *t, const graft_cpu_int8 *job, int64_t r, int v)
{
    vf sum = (vf)_mm512_cvtepi32_ps(_mm512_load_si512(t->sum + (r * PV + v) * VL));
    vf factor = vf_load(t->panel->scale + v * VL) * vf_set(job->row_scale[t->row + r]);
    return sum * factor + vf_load(t->panel->bias + v * VL);
}

INLINE void put(void *out, graft_dtype t, int64_t at, int64_t left, vf x)
{
    if (left >= VL)
        vf_put(out, t, (size_t)at, x);
    else if (left > 0)
        vf_put_tail(out, t, (size_t)at, (size_t)left, x);
}

/* One vector, or of GEGLU both, of a waiting tile's row. */
INLINE void finish(const waiting *t, const graft_cpu_int8 *job, int64_t r, int v, graft_act act)
{
    if (r >= t->rows) return;
    void *out = job->out[t->row + r];
    vf x = value_of(t, job, r, v);
    if (act == GRAFT_ACT_GEGLU) {
        x = x * vf_gelu(value_of(t, job, r, 1));
        put(out, job->out_type, t->panel->first, t->panel->count, x);
        return;
    }
    int64_t at = t->panel->first + v * VL, left = t->panel->count - v * VL;
    if (left <= 0) return;
    if (job->residual) {
        const void *y = job->residual[t->row + r];
        x = x + (left >= VL ? vf_get(y, job->residual_type, (size_t)at)
                            : vf_get_tail(y, job->residual_type, (size_t)at, (size_t)left));
    }
    if (act) x = vf_act(job->act, x);
    put(out, job->out_type, at, left, x);
}

INLINE __m512i quad(const uint8_t *p)
{
    int32_t four;
    memcpy(&four, p, sizeof four);
    return _mm512_set1_epi32(four);
}

/* Sums of a tile to `now`; meanwhile `before`, if any, is finished. */
INLINE void tile(const graft_cpu_int8 *job, const int8_t *w, const int32_t *start, waiting *now,
                 const waiting *before, graft_act act)
{
    enum { ITEMS = ROWS };
    __m512i sum[ROWS][PV];
    const uint8_t *x[ROWS / 3];
    int64_t s = job->stride;
#pragma GCC unroll 4
    for (int i = 0; i < ROWS / 3; i++) x[i] = job->level + (now->row + 3 * i) * s;
#pragma GCC unroll 16
    for (int r = 0; r < ROWS; r++)
#pragma GCC unroll 2
        for (int v = 0; v < PV; v++) sum[r][v] = _mm512_load_si512(start + v * VL);
    int64_t i = 0, quads = job->quads;
#pragma GCC unroll 1
    for (int64_t item = 0; item < ITEMS; item++) {
#pragma GCC unroll 1
        for (int64_t until = quads * (item + 1) / ITEMS; i < until; i++, w += 4 * PV * VL) {
            __m512i b[PV];
#pragma GCC unroll 2
            for (int v = 0; v < PV; v++) b[v] = _mm512_load_si512(w + 4 * v * VL);
#pragma GCC unroll 16
            for (int r = 0; r < ROWS; r++) {
                __m512i a = quad(x[r / 3] + r % 3 * s + 4 * i);
#pragma GCC unroll 2
                for (int v = 0; v < PV; v++) DOT(sum[r][v], a, b[v]);
            }
        }
        if (before) {
            finish(before, job, item, 0, act);
            if (act != GRAFT_ACT_GEGLU) finish(before, job, item, 1, act);
        }
    }
#pragma GCC unroll 16
    for (int r = 0; r < ROWS; r++)
#pragma GCC unroll 2
        for (int v = 0; v < PV; v++) store_halves(now->sum + (r * PV + v) * VL, sum[r][v]);
}

static void finish_all(const waiting *t, const graft_cpu_int8 *job)
{
    for (int64_t r = 0; r < t->rows; r++) {
        if (job->act == GRAFT_ACT_GEGLU) {
            finish(t, job, r, 0, GRAFT_ACT_GEGLU);
        } else {
            finish(t, job, r, 0, GRAFT_ACT_SILU);
            finish(t, job, r, 1, GRAFT_ACT_SILU);
        }
    }
}

/* `n` floats from `at` on, filled up with zeros to a vector. */
static void fill(float *to, const float *from, int64_t at, int64_t n)
{
    for (int64_t i = 0; i < VL; i++) to[i] = from && i < n ? from[at + i] : 0;
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

void SIMD(int8_multiply)(const graft_cpu_int8 *job, int64_t first, int64_t panels)
{
    panel both[2];
    waiting t[2];
    const waiting *before = NULL;
    int turn = 0;
    for (int64_t p = first; p < first + panels; p++) {
        const int8_t *w = job->weight + p * PV * VL * 4 * job->quads;
        const int32_t *start = job->start + p * PV * VL;
        panel *own = &both[p & 1];
        open_panel(own, job, p);
        for (int64_t row = 0; row < job->rows; row += ROWS, turn ^= 1) {
            waiting *now = &t[turn];
            now->panel = own;
            now->row = row;
            now->rows = job->rows - row < ROWS ? job->rows - row : ROWS;
            if (!before) {
                tile(job, w, start, now, NULL, GRAFT_ACT_NONE);
            } else if (job->act == GRAFT_ACT_GEGLU) {
                tile(job, w, start, now, before, GRAFT_ACT_GEGLU);
            } else if (job->act == GRAFT_ACT_NONE) {
                tile(job, w, start, now, before, GRAFT_ACT_NONE);
            } else {
                finish_all(before, job);
                tile(job, w, start, now, NULL, GRAFT_ACT_NONE);
            }
            before = now;
        }
    }
    if (before) finish_all(before, job);
}

/* ------------------------------------------------------------------ levels */

/* Sixteen values to whole numbers; NaN, and what is too large, to the lowest. */
INLINE __m512i whole(const void *x, graft_dtype t, size_t i, vf inverse)
{
    return _mm512_cvtps_epi32((__m512)(vf_get(x, t, i) * inverse));
}

INLINE size_t levels_by_64(const void *x, graft_dtype t, vf inverse, uint8_t *y, size_t n)
{
    const __m512i order = _mm512_set_epi32(15, 11, 7, 3, 14, 10, 6, 2, 13, 9, 5, 1, 12, 8, 4, 0);
    size_t i = 0;
    for (; i + 4 * VL <= n; i += 4 * VL) {
        __m512i a = _mm512_packs_epi32(whole(x, t, i, inverse), whole(x, t, i + VL, inverse));
        __m512i b =
            _mm512_packs_epi32(whole(x, t, i + 2 * VL, inverse), whole(x, t, i + 3 * VL, inverse));
        __m512i c = _mm512_max_epi8(_mm512_packs_epi16(a, b), _mm512_set1_epi8(-127));
        c = _mm512_xor_si512(_mm512_permutexvar_epi32(order, c), _mm512_set1_epi8(-128));
        _mm512_storeu_si512(y + i, c);
    }
    return i;
}

void SIMD(int8_levels)(const void *x, graft_dtype xt, float inverse, uint8_t *y, size_t n)
{
    size_t i = 0;
    vf v = vf_set(inverse);
    if (inverse <= FLT_MAX) /* else products may be too large */
        i = xt == GRAFT_BF16 ? levels_by_64(x, GRAFT_BF16, v, y, n)
                             : levels_by_64(x, GRAFT_F32, v, y, n);
    if (i == n) return;
    SIMD(to_s8)((const char *)x + i * graft_dtype_size(xt), xt, inverse, (int8_t *)y + i, n - i);
    for (; i < n; i++) y[i] ^= 0x80;
}
#endif
