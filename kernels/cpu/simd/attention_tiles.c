/* Attention in bfloat16 with AMX's matrix instructions (online softmax: Milakov and Gimelshein
 * 2018, arXiv:1805.02867). Panels of 32 queries pass over a section of keys and values, which is
 * laid out as the instructions read it and stays in the second-level cache; a chunk of keys at a
 * time, whose scores stay in the first. Sections and chunks begin at the same keys whatever the
 * number of panels, so that results do not depend on how the work is shared. */
#include <math.h>

#include "kernels/cpu/simd/matrix.h"

#define ROWS    GRAFT_CPU_ATTENTION_TILE_ROWS
#define HALF    16                    /* rows of a register, and columns of float32 */
#define PAIRS   32                    /* values of bfloat16 in a row of one */
#define CHUNK   128                   /* keys */
#define SECTION ((int64_t)512 << 10)  /* bytes of keys and values */
#define STATE   ((int64_t)1024 << 10) /* of panels that wait for the next section */
#define LOG2E   1.4426950408889634
#define LOWEST  -1.0e30f

typedef struct sizes {
    int64_t d;             /* elements of a head */
    int64_t inner, outer;  /* padded to whole registers: as summed over, as results */
    int64_t section, keys; /* keys of a section; all */
} sizes;

typedef struct scratch {
    uint16_t *k, *v, *p; /* a section's keys and values; a chunk's weights, ROWS x CHUNK */
    float *s;            /* its scores, and the next one's */
    char *panel;         /* of each: q (ROWS x inner), o (ROWS x outer), top and sum of each row */
    int64_t panel_bytes;
} scratch;

typedef struct state {
    uint16_t *q;
    float *o, *top, *sum; /* top: the largest score so far, times scale and log2 e */
} state;

static int64_t rounded(int64_t n, int64_t to)
{
    return (n + to - 1) / to * to;
}

static sizes sizes_of(int32_t head_dim, int64_t keys)
{
    sizes z = {.d = head_dim,
               .inner = rounded(head_dim, PAIRS),
               .outer = rounded(head_dim, HALF),
               .keys = keys};
    z.section = SECTION / (2 * (z.inner + z.outer)) / CHUNK * CHUNK;
    if (z.section < CHUNK) z.section = CHUNK;
    if (z.section > rounded(keys, CHUNK)) z.section = rounded(keys, CHUNK);
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
    return ROWS * (2 * z->inner + 4 * z->outer + 8);
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
    return (size_t)(2 * z.section * (z.inner + z.outer) + ROWS * CHUNK * 10 +
                    panels * panel_bytes(&z));
}

static scratch carve(const sizes *z, char *at)
{
    scratch m = {.panel_bytes = panel_bytes(z)};
    m.k = (uint16_t *)(void *)at;
    m.v = m.k + z->section * z->inner;
    m.p = m.v + z->section * z->outer;
    m.s = (float *)(void *)(m.p + ROWS * CHUNK);
    m.panel = (char *)(m.s + 2 * ROWS * CHUNK);
    return m;
}

static state state_of(const sizes *z, const scratch *m, int64_t i)
{
    char *at = m->panel + i * m->panel_bytes;
    state p = {.q = (uint16_t *)(void *)at};
    p.o = (float *)(void *)(p.q + ROWS * z->inner);
    p.top = p.o + ROWS * z->outer;
    p.sum = p.top + ROWS;
    return p;
}

/* ------------------------------------------------------------------ layout */

/* Up to 32 values, zeros behind n. */
INLINE __m512i words(const uint16_t *p, int64_t n)
{
    if (n >= PAIRS) return _mm512_loadu_si512(p);
    return n > 0 ? _mm512_maskz_loadu_epi16((__mmask32)((1u << n) - 1), p) : _mm512_setzero_si512();
}

INLINE __m256i half_words(const uint16_t *p, int64_t n)
{
    if (n >= HALF) return _mm256_loadu_si256((const void *)p);
    return n > 0 ? _mm256_maskz_loadu_epi16((__mmask16)((1u << n) - 1), p) : _mm256_setzero_si256();
}

/* For every 16 keys and 32 elements a register: a row is a pair of elements of all these keys. */
static void lay_keys(const graft_cpu_attention *a, const sizes *z, int64_t begin, uint16_t *to)
{
    const uint16_t *k = a->k;
    for (int64_t key = begin; key < begin + z->section; key += HALF)
        for (int64_t i = 0; i < z->inner; i += PAIRS, to += HALF * PAIRS) {
            vf r[VL];
            for (int64_t j = 0; j < HALF; j++)
                r[j] = key + j < z->keys ? (vf)words(k + (key + j) * a->k_stride + i, z->d - i)
                                         : (vf){0};
            vf_transpose(r);
            for (int64_t j = 0; j < HALF; j++) vf_store((float *)(void *)to + j * VL, r[j]);
        }
}

/* For every 32 keys and 16 elements a register: a row is all these elements of a pair of keys. */
static void lay_values(const graft_cpu_attention *a, const sizes *z, int64_t begin, uint16_t *to)
{
    const uint16_t *v = a->v;
    for (int64_t key = begin; key < begin + z->section; key += PAIRS)
        for (int64_t i = 0; i < z->outer; i += HALF)
            for (int64_t j = key; j < key + PAIRS; j += 2, to += PAIRS) {
                __m256i even = _mm256_setzero_si256(), odd = even;
                if (j < z->keys) even = half_words(v + j * a->v_stride + i, z->d - i);
                if (j + 1 < z->keys) odd = half_words(v + (j + 1) * a->v_stride + i, z->d - i);
                __m512i both = _mm512_or_si512(_mm512_cvtepu16_epi32(even),
                                               _mm512_slli_epi32(_mm512_cvtepu16_epi32(odd), 16));
                _mm512_storeu_si512(to, both);
            }
}

static void begin_panel(const graft_cpu_attention *a, const sizes *z, int64_t first, int64_t rows,
                        const state *p)
{
    const uint16_t *q = a->q;
    for (int64_t r = 0; r < ROWS; r++)
        for (int64_t i = 0; i < z->inner; i += PAIRS)
            _mm512_storeu_si512(p->q + r * z->inner + i,
                                words(q + (first + r) * a->q_stride + i, r < rows ? z->d - i : 0));
    memset(p->o, 0, (size_t)(ROWS * z->outer) * sizeof *p->o);
    for (int64_t r = 0; r < ROWS; r++) {
        p->top[r] = LOWEST;
        p->sum[r] = 0;
    }
}

/* ------------------------------------------------------------------ products */

/* The scores of 32 keys, from the section's key `first` on, into 32 columns of s. */
INLINE void scores(const sizes *z, const scratch *m, const uint16_t *q, int64_t first, float *s)
{
    const uint16_t *k = m->k + first * z->inner;
    const int64_t step = HALF * PAIRS, next = step * (z->inner / PAIRS);
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
    for (int64_t i = 0; i < z->inner; i += PAIRS, k += step) {
        _tile_loadd(4, q + i, 2 * z->inner);
        _tile_loadd(6, k, 64);
        _tile_dpbf16ps(0, 4, 6);
        _tile_loadd(7, k + next, 64);
        _tile_dpbf16ps(1, 4, 7);
        _tile_loadd(5, q + HALF * z->inner + i, 2 * z->inner);
        _tile_dpbf16ps(2, 5, 6);
        _tile_dpbf16ps(3, 5, 7);
    }
    _tile_stored(0, s, 4 * CHUNK);
    _tile_stored(1, s + HALF, 4 * CHUNK);
    _tile_stored(2, s + HALF * CHUNK, 4 * CHUNK);
    _tile_stored(3, s + HALF * CHUNK + HALF, 4 * CHUNK);
}

/* Adds a chunk's weights times its values to 32 columns of o, or to 16 where `one`. */
INLINE void values(const sizes *z, const uint16_t *p, const uint16_t *v, float *o, bool one)
{
    const int64_t stride = 4 * z->outer, step = PAIRS * z->outer;
    _tile_loadd(0, o, stride);
    _tile_loadd(2, o + HALF * z->outer, stride);
    if (!one) {
        _tile_loadd(1, o + HALF, stride);
        _tile_loadd(3, o + HALF * z->outer + HALF, stride);
    }
    for (int64_t i = 0; i < CHUNK; i += PAIRS, v += step) {
        _tile_loadd(4, p + i, 2 * CHUNK);
        _tile_loadd(5, p + HALF * CHUNK + i, 2 * CHUNK);
        _tile_loadd(6, v, 64);
        _tile_dpbf16ps(0, 4, 6);
        _tile_dpbf16ps(2, 5, 6);
        if (one) continue;
        _tile_loadd(7, v + PAIRS * HALF, 64);
        _tile_dpbf16ps(1, 4, 7);
        _tile_dpbf16ps(3, 5, 7);
    }
    _tile_stored(0, o, stride);
    _tile_stored(2, o + HALF * z->outer, stride);
    if (one) return;
    _tile_stored(1, o + HALF, stride);
    _tile_stored(3, o + HALF * z->outer + HALF, stride);
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

/* A row of scores becomes weights, of which the first `count` are keys; what was summed so far
 * shrinks where its largest score is exceeded. */
INLINE void weigh(const sizes *z, const state *p, int64_t r, float *s, uint16_t *weight,
                  int64_t count, float scale)
{
    enum { N = CHUNK / VL };
    vf x[N], most = vf_set(LOWEST), sum[2] = {{0}};
    for (int64_t i = count; i < CHUNK; i++) s[i] = -INFINITY;
#pragma GCC unroll 8
    for (int i = 0; i < N; i++) {
        x[i] = vf_load(s + i * VL);
        most = vf_max(most, x[i]);
    }
    float top = _mm512_reduce_max_ps((__m512)most) * scale;
    if (top > p->top[r]) {
        float decay = exp2f(p->top[r] - top);
        p->sum[r] *= decay;
        for (int64_t i = 0; i < z->outer; i += VL)
            vf_store(p->o + r * z->outer + i, vf_load(p->o + r * z->outer + i) * vf_set(decay));
        p->top[r] = top;
    }
    const vf ref = vf_set(p->top[r]);
#pragma GCC unroll 4
    for (int i = 0; i < N; i += 2) {
        vf e = exp2_near(x[i] * vf_set(scale) - ref), f = exp2_near(x[i + 1] * vf_set(scale) - ref);
        __m512i both = (__m512i)_mm512_cvtne2ps_pbh((__m512)f, (__m512)e);
        _mm512_storeu_si512(weight + i * VL, both);
        /* As they were rounded: all weights of a row are 1 together. */
        sum[0] = sum[0] + (vf)_mm512_slli_epi32(both, 16);
        sum[1] = sum[1] + (vf)_mm512_and_si512(both, _mm512_set1_epi32((int)0xffff0000));
    }
    p->sum[r] += _mm512_reduce_add_ps((__m512)(sum[0] + sum[1]));
}

/* A panel passes over the section's first `keys` keys. The next chunk's scores are under way while
 * this one's become weights. */
static void pass(const sizes *z, const scratch *m, const state *p, int64_t keys, int64_t rows,
                 float scale)
{
    enum { PARTS = CHUNK / PAIRS };
    float *s = m->s, *next = m->s + ROWS * CHUNK;
    for (int64_t at = 0; at < CHUNK; at += PAIRS) scores(z, m, p->q, at, s + at);
    for (int64_t first = 0; first < keys; first += CHUNK) {
        const int64_t count = keys - first < CHUNK ? keys - first : CHUNK;
        for (int64_t part = 0; part < PARTS; part++) {
            const int64_t end = rows * (part + 1) / PARTS, at = part * PAIRS;
            if (first + CHUNK < keys) scores(z, m, p->q, first + CHUNK + at, next + at);
            for (int64_t r = rows * part / PARTS; r < end; r++)
                weigh(z, p, r, s + r * CHUNK, m->p + r * CHUNK, count, scale);
        }
        for (int64_t i = 0; i < z->outer; i += PAIRS)
            values(z, m->p, m->v + first * z->outer + i * PAIRS, p->o + i, i + HALF == z->outer);
        float *t = s;
        s = next;
        next = t;
    }
}

static void end_panel(const graft_cpu_attention *a, const sizes *z, int64_t first, int64_t rows,
                      const state *p)
{
    for (int64_t r = 0; r < rows; r++) {
        const vf inverse = vf_set(1.0f / p->sum[r]);
        for (int64_t i = 0; i < z->d; i += VL) {
            vf x = vf_load(p->o + r * z->outer + i) * inverse;
            size_t at = (size_t)((first + r) * a->out_stride + i);
            if (z->d - i >= VL)
                vf_put(a->out, GRAFT_BF16, at, x);
            else
                vf_put_tail(a->out, GRAFT_BF16, at, (size_t)(z->d - i), x);
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
    /* Rows that a panel has not are multiplied, too, and must be numbers. */
    memset(m.p, 0, ROWS * CHUNK * sizeof *m.p);
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
            pass(&z, &m, &p, keys, rows_of(queries, first + i), scale);
        }
    }
    matrix_end(&others);
    for (int64_t i = 0; i < panels; i++) {
        const state p = state_of(&z, &m, i);
        end_panel(a, &z, (first + i) * ROWS, rows_of(queries, first + i), &p);
    }
}
