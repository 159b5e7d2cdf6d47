/* Attention in bfloat16 with AMX's matrix instructions (online softmax: Milakov and Gimelshein
 * 2018, arXiv:1805.02867). Panels of 32 queries pass over a section of keys and values, which is
 * laid out as the instructions read it and stays in the second-level cache; a chunk of keys at a
 * time, whose scores stay in the first. Sections and chunks begin at the same keys whatever the
 * number of panels, so that results do not depend on how the work is shared.
 *
 * Everything is transposed: queries are the columns of scores, weights and results, so that a
 * vector is of sixteen queries and nothing is added up or compared within one. Values have one
 * element more, 1, whose result is the sum of the weights as they were rounded. While a chunk's
 * scores become weights, which vectors do, the matrix unit multiplies the weights before with their
 * values and computes the scores behind, a few instructions of the one between a few of the other:
 * processors look no further ahead. */
#include <math.h>

#include "kernels/cpu/simd/matrix.h"

#define ROWS    GRAFT_CPU_ATTENTION_TILE_ROWS
#define HALF    16                    /* rows of a register, and columns of float32 */
#define PAIRS   32                    /* values of bfloat16 in a row of one */
#define TILE    (HALF * PAIRS)        /* in all of one */
#define CHUNK   128                   /* keys */
#define SECTION ((int64_t)512 << 10)  /* bytes of keys and values */
#define STATE   ((int64_t)1024 << 10) /* of panels that wait for the next section */
#define LOG2E   1.4426950408889634
#define LOWEST  -1.0e30f
_Static_assert(ROWS == 2 * HALF && VL == HALF && CHUNK % PAIRS == 0, "registers");

typedef struct sizes {
    int64_t d;             /* elements of a head */
    int64_t inner, outer;  /* padded to whole registers: as summed over; as results, with the sum */
    int64_t section, keys; /* keys of a section; all */
} sizes;

typedef struct scratch {
    uint16_t *k, *v; /* a section's */
    float *s[2];     /* scores of a chunk and the next one, CHUNK x ROWS */
    uint16_t *p[2];  /* weights of a chunk and the one before, in registers of 32 keys */
    char *panel;     /* of each: q, o (outer x ROWS), top of each query */
    int64_t panel_bytes;
} scratch;

typedef struct state {
    uint16_t *q;
    float *o, *top; /* top: the largest score so far, times scale and log2 e */
} state;

static int64_t rounded(int64_t n, int64_t to)
{
    return (n + to - 1) / to * to;
}

static sizes sizes_of(int32_t head_dim, int64_t keys)
{
    sizes z = {.d = head_dim,
               .inner = rounded(head_dim, PAIRS),
               .outer = rounded(head_dim + 1, HALF),
               .keys = keys};
    z.section = SECTION / (2 * (z.inner + z.outer)) / CHUNK * CHUNK;
    if (z.section < CHUNK) z.section = CHUNK;
    if (z.section > rounded(keys, PAIRS)) z.section = rounded(keys, PAIRS);
    return z;
}

/* Of a panel; the last one has what is left. */
static int64_t rows_of(int64_t queries, int64_t panel)
{
    const int64_t left = queries - panel * ROWS;
    return left < ROWS ? left : ROWS;
}

static int64_t panel_bytes(const sizes *z)
{
    return ROWS * (2 * z->inner + 4 * z->outer + 4);
}

int32_t graft_cpu_attention_tiles_group(int32_t head_dim)
{
    const sizes z = sizes_of(head_dim, 1);
    const int64_t n = STATE / panel_bytes(&z);
    return n < 1 ? 1 : (int32_t)n;
}

size_t graft_cpu_attention_tiles_scratch(int32_t head_dim, int64_t keys, int32_t panels)
{
    const sizes z = sizes_of(head_dim, keys);
    return (size_t)(2 * z.section * (z.inner + z.outer) + ROWS * CHUNK * 12 +
                    panels * panel_bytes(&z));
}

static scratch carve(const sizes *z, char *at)
{
    scratch m = {.panel_bytes = panel_bytes(z)};
    m.s[0] = (float *)(void *)at;
    m.s[1] = m.s[0] + ROWS * CHUNK;
    m.p[0] = (uint16_t *)(void *)(m.s[1] + ROWS * CHUNK);
    m.p[1] = m.p[0] + ROWS * CHUNK;
    m.k = m.p[1] + ROWS * CHUNK;
    m.v = m.k + z->section * z->inner;
    m.panel = (char *)(m.v + z->section * z->outer);
    return m;
}

static state state_of(const sizes *z, const scratch *m, int64_t i)
{
    char *at = m->panel + i * m->panel_bytes;
    state p = {.q = (uint16_t *)(void *)at};
    p.o = (float *)(void *)(p.q + ROWS * z->inner);
    p.top = p.o + ROWS * z->outer;
    return p;
}

/* ------------------------------------------------------------------ layout */

/* Up to 32 values, zeros behind n. */
INLINE __m512i words(const uint16_t *p, int64_t n)
{
    if (n >= PAIRS) return _mm512_loadu_si512(p);
    return n > 0 ? _mm512_maskz_loadu_epi16((__mmask32)((1u << n) - 1), p) : _mm512_setzero_si512();
}

/* Row r of 16 has the pair of elements i + 2r of all rows from p on; rows beyond `rows` are 0. */
INLINE void pairs_of_rows(const uint16_t *p, int64_t stride, int64_t rows, int64_t i, int64_t d,
                          vf r[VL])
{
    for (int64_t j = 0; j < HALF; j++)
        r[j] = j < rows ? (vf)words(p + j * stride + i, d - i) : (vf){0};
    vf_transpose(r);
}

/* For every 16 keys and 32 elements a register: a row is a key. */
static void lay_keys(const graft_cpu_attention *a, const sizes *z, int64_t begin, uint16_t *to)
{
    const uint16_t *k = a->k;
    for (int64_t key = begin; key < begin + z->section; key += HALF)
        for (int64_t i = 0; i < z->inner; i += PAIRS)
            for (int64_t j = key; j < key + HALF; j++, to += PAIRS)
                _mm512_storeu_si512(to, words(k + j * a->k_stride + i, j < z->keys ? z->d - i : 0));
}

/* For every 32 keys and 16 elements a register: a row is an element of these keys. Behind the last
 * one is a row of ones. */
static void lay_values(const graft_cpu_attention *a, const sizes *z, int64_t begin, uint16_t *to)
{
    const uint16_t *v = a->v;
    uint16_t order[2][PAIRS];
    for (int i = 0; i < PAIRS; i++) {
        order[0][i] = (uint16_t)(2 * i);
        order[1][i] = (uint16_t)(2 * i + 1);
    }
    const __m512i even = _mm512_loadu_si512(order[0]), odd = _mm512_loadu_si512(order[1]);
    for (int64_t key = begin; key < begin + z->section; key += PAIRS, to += PAIRS * z->outer) {
        for (int64_t i = 0; i < z->outer; i += PAIRS) {
            vf low[VL], high[VL];
            const uint16_t *from = v + key * a->v_stride;
            pairs_of_rows(from, a->v_stride, z->keys - key, i, z->d, low);
            pairs_of_rows(from + HALF * a->v_stride, a->v_stride, z->keys - key - HALF, i, z->d,
                          high);
            for (int64_t j = 0; j < HALF && i + 2 * j < z->outer; j++) {
                __m512i x = (__m512i)low[j], y = (__m512i)high[j];
                _mm512_storeu_si512(to + (i + 2 * j) * PAIRS,
                                    _mm512_permutex2var_epi16(x, even, y));
                _mm512_storeu_si512(to + (i + 2 * j + 1) * PAIRS,
                                    _mm512_permutex2var_epi16(x, odd, y));
            }
        }
        _mm512_storeu_si512(to + z->d * PAIRS, _mm512_set1_epi16(0x3f80));
    }
}

/* Of queries, for every 32 elements and 16 queries a register: a row is a pair of elements. */
static void begin_panel(const graft_cpu_attention *a, const sizes *z, int64_t first, int64_t rows,
                        const state *p)
{
    const uint16_t *q = (const uint16_t *)a->q + first * a->q_stride;
    uint16_t *to = p->q;
    for (int64_t i = 0; i < z->inner; i += PAIRS)
        for (int64_t h = 0; h < ROWS; h += HALF, to += TILE) {
            vf r[VL];
            pairs_of_rows(q + h * a->q_stride, a->q_stride, rows - h, i, z->d, r);
            for (int64_t j = 0; j < HALF; j++) vf_store((float *)(void *)to + j * VL, r[j]);
        }
    memset(p->o, 0, (size_t)(ROWS * z->outer) * sizeof *p->o);
    for (int64_t r = 0; r < ROWS; r++) p->top[r] = LOWEST;
}

/* ------------------------------------------------------------------ weights */

/* 2^x for x of at most a little above 0, within 1e-4, and 0 for minus infinity: a polynomial of
 * what is above the next lower whole number, with the least largest error. */
INLINE vf exp2_near(vf x)
{
    vf r = (vf)_mm512_reduce_ps((__m512)x, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC);
    vf p = (vf_set(0.0794402384f) * r + vf_set(0.224494337f)) * r + vf_set(0.696065642f);
    return (vf)_mm512_scalef_ps((__m512)(p * r + vf_set(0.999925219f)), (__m512)x);
}

/* A chunk's scores on their way to weights, some pairs of keys at a time. */
typedef struct weighing {
    const float *s;
    uint16_t *p;
    vf scale, top[2];
    __m512i order; /* of two keys' weights: each query's side by side */
    int64_t done, pairs, each;
} weighing;

INLINE void weigh(weighing *w)
{
    int64_t end = w->done + w->each < w->pairs ? w->done + w->each : w->pairs;
    for (int64_t i = w->done; i < end; i++) {
        const float *s = w->s + 2 * i * ROWS;
        uint16_t *to = w->p + i / HALF * 2 * TILE + i % HALF * PAIRS;
#pragma GCC unroll 2
        for (int h = 0; h < 2; h++) {
            vf e = exp2_near(vf_load(s + h * VL) * w->scale - w->top[h]);
            vf f = exp2_near(vf_load(s + ROWS + h * VL) * w->scale - w->top[h]);
            __m512i both = (__m512i)_mm512_cvtne2ps_pbh((__m512)f, (__m512)e);
            _mm512_storeu_si512(to + h * TILE, _mm512_permutexvar_epi16(w->order, both));
        }
    }
    w->done = end;
}

/* Takes the scores of `count` keys into the largest ones so far; whether any became larger, and
 * what earlier results are to be multiplied by then. */
INLINE bool raise_top(const float *s, int64_t count, const state *p, weighing *w, vf decay[2])
{
    bool raised = false;
#pragma GCC unroll 2
    for (int h = 0; h < 2; h++) {
        vf most[4] = {vf_load(s + h * VL), vf_load(s + h * VL), vf_load(s + h * VL),
                      vf_load(s + h * VL)};
        int64_t i = 1;
        for (; i + 4 <= count; i += 4)
#pragma GCC unroll 4
            for (int j = 0; j < 4; j++)
                most[j] = vf_max(most[j], vf_load(s + (i + j) * ROWS + h * VL));
        for (; i < count; i++) most[0] = vf_max(most[0], vf_load(s + i * ROWS + h * VL));
        const vf before = vf_load(p->top + h * VL);
        w->top[h] =
            vf_max(before, vf_max(vf_max(most[0], most[1]), vf_max(most[2], most[3])) * w->scale);
        raised |= _mm512_cmp_ps_mask((__m512)w->top[h], (__m512)before, _CMP_NEQ_UQ) != 0;
        decay[h] = exp2_near(before - w->top[h]);
        vf_store(p->top + h * VL, w->top[h]);
    }
    return raised;
}

/* ------------------------------------------------------------------ products */

/* The scores of 32 keys, a row each. */
INLINE void scores(const sizes *z, const uint16_t *k, const uint16_t *q, float *s, weighing *w)
{
    const int64_t next = HALF * z->inner;
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
    for (int64_t i = 0; i < z->inner; i += PAIRS, k += TILE, q += 2 * TILE) {
        _tile_loadd(4, k, 64);
        _tile_loadd(6, q, 64);
        _tile_dpbf16ps(0, 4, 6);
        _tile_loadd(7, q + TILE, 64);
        _tile_dpbf16ps(1, 4, 7);
        _tile_loadd(5, k + next, 64);
        _tile_dpbf16ps(2, 5, 6);
        _tile_dpbf16ps(3, 5, 7);
        weigh(w);
    }
    _tile_stored(0, s, 4 * ROWS);
    _tile_stored(1, s + HALF, 4 * ROWS);
    _tile_stored(2, s + HALF * ROWS, 4 * ROWS);
    _tile_stored(3, s + HALF * ROWS + HALF, 4 * ROWS);
}

/* Adds the weights of some 32 keys times 32 elements of their values, or 16 where `one`, to as many
 * rows of o. */
INLINE void values(const sizes *z, const uint16_t *p, int64_t blocks, const uint16_t *v, float *o,
                   bool one, weighing *w)
{
    _tile_loadd(0, o, 4 * ROWS);
    _tile_loadd(1, o + HALF, 4 * ROWS);
    if (!one) {
        _tile_loadd(2, o + HALF * ROWS, 4 * ROWS);
        _tile_loadd(3, o + HALF * ROWS + HALF, 4 * ROWS);
    }
    for (int64_t i = 0; i < blocks; i++, p += 2 * TILE, v += PAIRS * z->outer) {
        _tile_loadd(4, v, 64);
        _tile_loadd(6, p, 64);
        _tile_dpbf16ps(0, 4, 6);
        _tile_loadd(7, p + TILE, 64);
        _tile_dpbf16ps(1, 4, 7);
        if (!one) {
            _tile_loadd(5, v + TILE, 64);
            _tile_dpbf16ps(2, 5, 6);
            _tile_dpbf16ps(3, 5, 7);
        }
        weigh(w);
    }
    _tile_stored(0, o, 4 * ROWS);
    _tile_stored(1, o + HALF, 4 * ROWS);
    if (one) return;
    _tile_stored(2, o + HALF * ROWS, 4 * ROWS);
    _tile_stored(3, o + HALF * ROWS + HALF, 4 * ROWS);
}

INLINE void chunk_scores(const sizes *z, const scratch *m, const state *p, int64_t first,
                         int64_t blocks, float *s, weighing *w)
{
    const uint16_t *k = m->k + first * z->inner;
    for (int64_t i = 0; i < blocks; i++)
        scores(z, k + i * PAIRS * z->inner, p->q, s + i * PAIRS * ROWS, w);
}

INLINE void chunk_values(const sizes *z, const scratch *m, const state *p, int64_t first,
                         int64_t blocks, const uint16_t *weights, weighing *w)
{
    const uint16_t *v = m->v + first * z->outer;
    for (int64_t i = 0; i < z->outer; i += PAIRS)
        values(z, weights, blocks, v + i * PAIRS, p->o + i * ROWS, i + HALF == z->outer, w);
}

/* Of the section's keys from `first` on, which are a chunk or what is left of it. */
static int64_t blocks_of(int64_t keys, int64_t first)
{
    const int64_t n = keys - first < CHUNK ? keys - first : CHUNK;
    return n > 0 ? (n + PAIRS - 1) / PAIRS : 0;
}

static void shrink(const sizes *z, const state *p, const vf decay[2])
{
    for (int64_t i = 0; i <= z->d; i++)
        for (int h = 0; h < 2; h++) {
            float *o = p->o + i * ROWS + h * VL;
            vf_store(o, vf_load(o) * decay[h]);
        }
}

/* A panel passes over the section's first `keys` keys. */
static void pass(const sizes *z, const scratch *m, const state *p, int64_t keys, float scale)
{
    uint16_t order[PAIRS];
    for (int i = 0; i < PAIRS; i++) order[i] = (uint16_t)(i / 2 + i % 2 * VL);
    weighing w = {.scale = vf_set(scale), .order = _mm512_loadu_si512(order)};
    const int64_t steps = z->inner / PAIRS, parts = (z->outer + PAIRS - 1) / PAIRS;
    int64_t first = 0, blocks = 0, turn = 0;
    chunk_scores(z, m, p, 0, blocks_of(keys, 0), m->s[0], &w);
    for (; first < keys; first += CHUNK, turn ^= 1) {
        const int64_t count = keys - first < CHUNK ? keys - first : CHUNK, before = blocks;
        const int64_t next = blocks_of(keys, first + CHUNK), slots = before * parts + next * steps;
        float *s = m->s[turn];
        vf decay[2];
        blocks = blocks_of(keys, first);
        for (int64_t i = count * ROWS; i < blocks * PAIRS * ROWS; i++) s[i] = -INFINITY;
        bool raised = raise_top(s, count, p, &w, decay);
        w.s = s;
        w.p = m->p[turn];
        w.done = 0;
        w.pairs = blocks * PAIRS / 2;
        w.each = slots ? (w.pairs + slots - 1) / slots : w.pairs;
        matrix_sees_stores();
        if (before) chunk_values(z, m, p, first - CHUNK, before, m->p[turn ^ 1], &w);
        if (next) chunk_scores(z, m, p, first + CHUNK, next, m->s[turn ^ 1], &w);
        w.each = w.pairs;
        weigh(&w);
        if (raised) shrink(z, p, decay);
    }
    w.pairs = 0;
    matrix_sees_stores();
    chunk_values(z, m, p, first - CHUNK, blocks, m->p[turn ^ 1], &w);
}

/* Columns become rows of the result. */
static void end_panel(const graft_cpu_attention *a, const sizes *z, int64_t first, int64_t rows,
                      const state *p)
{
    for (int64_t h = 0; h < rows; h += HALF) {
        const vf inverse = vf_set(1.0f) / vf_load(p->o + z->d * ROWS + h);
        for (int64_t i = 0; i < z->d; i += VL) {
            const int64_t left = z->d - i;
            vf r[VL];
            for (int64_t j = 0; j < VL; j++)
                r[j] = j < left ? vf_load(p->o + (i + j) * ROWS + h) * inverse : (vf){0};
            vf_transpose(r);
            for (int64_t j = 0; j < VL && h + j < rows; j++) {
                size_t at = (size_t)((first + h + j) * a->out_stride + i);
                if (left >= VL)
                    vf_put(a->out, GRAFT_BF16, at, r[j]);
                else
                    vf_put_tail(a->out, GRAFT_BF16, at, (size_t)left, r[j]);
            }
        }
    }
}

void graft_cpu_attention_tiles(const graft_cpu_attention *a, int64_t queries, int64_t first,
                               int32_t panels, void *memory)
{
    const sizes z = sizes_of(a->head_dim, a->keys);
    const scratch m = carve(&z, memory);
    const float scale = (float)((double)a->scale * LOG2E);
    matrix_shapes others;
    matrix_begin(&others);
    for (int64_t i = 0; i < panels; i++) {
        const state p = state_of(&z, &m, i);
        begin_panel(a, &z, (first + i) * ROWS, rows_of(queries, first + i), &p);
    }
    for (int64_t begin = 0; begin < z.keys; begin += z.section) {
        lay_keys(a, &z, begin, m.k);
        lay_values(a, &z, begin, m.v);
        const int64_t left = z.keys - begin, keys = left < z.section ? left : z.section;
        for (int64_t i = 0; i < panels; i++) {
            const state p = state_of(&z, &m, i);
            matrix_sees_stores();
            pass(&z, &m, &p, keys, scale);
        }
    }
    matrix_end(&others);
    for (int64_t i = 0; i < panels; i++) {
        const state p = state_of(&z, &m, i);
        end_panel(a, &z, (first + i) * ROWS, rows_of(queries, first + i), &p);
    }
}
