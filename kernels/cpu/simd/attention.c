/* Attention of one head without the score matrix: keys are taken in blocks, the softmax is kept
 * running (Milakov and Gimelshein, "Online normalizer calculation for softmax", 2018; Dao et al.,
 * "FlashAttention", 2022).
 *
 * Everything stands transposed, queries along the lanes: a panel is NV vectors of queries, scores
 * are rows of a panel by key, results rows of a panel by head element. So maxima, sums and
 * exponentials are taken lane by lane, both products broadcast one operand and stream the other,
 * and any head_dim fills the vectors. With BF16 instructions one 32-bit word is a pair of
 * neighbours in the summed dimension; the code is otherwise the same. */
#include "kernels/cpu/simd/functions.h"

#define NV   (VL == 16 ? 4 : 2)
#define QB   (NV * VL)
#define ROWS 6
/* Keys of a block; even. Scores of a block and a panel of queries stay in the first-level cache. */
#define KB     64
#define MASKED (-3.0e38f)
#define LOWEST (-1.0e30f)
#define LOG2E  1.4426950408889634

typedef struct scratch {
    float *q, *o, *max, *sum; /* per panel: words*QB, head_dim*QB, QB, QB */
    float *s, *k, *v;         /* scores KB*QB, keys KB*words, values KB*head_dim */
} scratch;

/* acc += a * b, where a is one broadcast word. */
INLINE vf mac(int pairs, vf acc, const float *a, vf b)
{
#if GRAFT_ISA_LEVEL >= 3
    if (pairs) {
        int32_t w;
        memcpy(&w, a, sizeof w);
        return (vf)_mm512_dpbf16_ps((__m512)acc, (__m512bh)_mm512_set1_epi32(w), (__m512bh)b);
    }
#else
    (void)pairs;
#endif
    return acc + vf_set(*a) * b;
}

/* Scores of `rows` keys and their maxima per lane. */
INLINE void score_tile(int rows, int pairs, const float *k, const float *q, int words, float *s,
                       vf max[NV])
{
    vf acc[ROWS][NV];
#pragma GCC unroll 8
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 8
        for (int j = 0; j < NV; j++) acc[r][j] = (vf){0};
    for (int i = 0; i < words; i++) {
        vf b[NV];
#pragma GCC unroll 8
        for (int j = 0; j < NV; j++) b[j] = vf_load(q + i * QB + j * VL);
#pragma GCC unroll 8
        for (int r = 0; r < rows; r++)
#pragma GCC unroll 8
            for (int j = 0; j < NV; j++) acc[r][j] = mac(pairs, acc[r][j], k + r * words + i, b[j]);
    }
#pragma GCC unroll 8
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 8
        for (int j = 0; j < NV; j++) {
            vf_store(s + r * QB + j * VL, acc[r][j]);
            max[j] = vf_max(max[j], acc[r][j]);
        }
}

INLINE void score_block(int pairs, const float *k, const float *q, int words, int keys, float *s,
                        float *max)
{
    vf m[NV];
    for (int j = 0; j < NV; j++) m[j] = vf_set(MASKED);
    int r = 0;
    for (; r + ROWS <= keys; r += ROWS)
        score_tile(ROWS, pairs, k + r * words, q, words, s + r * QB, m);
    switch (keys - r) {
    case 1:
        score_tile(1, pairs, k + r * words, q, words, s + r * QB, m);
        break;
    case 2:
        score_tile(2, pairs, k + r * words, q, words, s + r * QB, m);
        break;
    case 3:
        score_tile(3, pairs, k + r * words, q, words, s + r * QB, m);
        break;
    case 4:
        score_tile(4, pairs, k + r * words, q, words, s + r * QB, m);
        break;
    case 5:
        score_tile(5, pairs, k + r * words, q, words, s + r * QB, m);
        break;
    default:
        break;
    }
    for (int j = 0; j < NV; j++) vf_store(max + j * VL, m[j]);
}

/* Rows r .. r+rows-1 of the result: o = o * decay + sum over the block of value * weight. */
INLINE void value_tile(int rows, int pairs, const float *v, const float *p, int dim, int words,
                       const float *decay, float *o)
{
    vf acc[ROWS][NV];
#pragma GCC unroll 8
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 8
        for (int j = 0; j < NV; j++)
            acc[r][j] = vf_load(o + r * QB + j * VL) * vf_load(decay + j * VL);
    for (int i = 0; i < words; i++) {
        vf b[NV];
#pragma GCC unroll 8
        for (int j = 0; j < NV; j++) b[j] = vf_load(p + i * QB + j * VL);
#pragma GCC unroll 8
        for (int r = 0; r < rows; r++)
#pragma GCC unroll 8
            for (int j = 0; j < NV; j++) acc[r][j] = mac(pairs, acc[r][j], v + i * dim + r, b[j]);
    }
#pragma GCC unroll 8
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 8
        for (int j = 0; j < NV; j++) vf_store(o + r * QB + j * VL, acc[r][j]);
}

INLINE void value_block(int pairs, const float *v, const float *p, int dim, int words,
                        const float *decay, float *o)
{
    int r = 0;
    if (dim % 6 && dim % 5 == 0) {
        for (; r < dim; r += 5) value_tile(5, pairs, v + r, p, dim, words, decay, o + r * QB);
        return;
    }
    for (; r + ROWS <= dim; r += ROWS)
        value_tile(ROWS, pairs, v + r, p, dim, words, decay, o + r * QB);
    switch (dim - r) {
    case 1:
        value_tile(1, pairs, v + r, p, dim, words, decay, o + r * QB);
        break;
    case 2:
        value_tile(2, pairs, v + r, p, dim, words, decay, o + r * QB);
        break;
    case 3:
        value_tile(3, pairs, v + r, p, dim, words, decay, o + r * QB);
        break;
    case 4:
        value_tile(4, pairs, v + r, p, dim, words, decay, o + r * QB);
        break;
    case 5:
        value_tile(5, pairs, v + r, p, dim, words, decay, o + r * QB);
        break;
    default:
        break;
    }
}

/* Scores to weights in place; `scale` (with log2 e in it) is 1 for float32, where the queries
 * have it already. In: the block's maxima in `decay`. Out: the factor for earlier results there,
 * `max` and `sum` brought up to date. Pairs are packed two rows into one; an odd last row gets a
 * partner of zeros. */
INLINE void weights(int pairs, float *s, int keys, float scale, float *max, float *sum,
                    float *decay)
{
    vf m[NV], t[NV];
    for (int j = 0; j < NV; j++) {
        vf before = vf_load(max + j * VL);
        m[j] = vf_max(before, vf_load(decay + j * VL) * scale);
        vf d = vf_exp2_neg(before - m[j]);
        t[j] = vf_load(sum + j * VL) * d;
        vf_store(decay + j * VL, d);
        vf_store(max + j * VL, m[j]);
    }
    int i = 0;
    if (!pairs) {
        for (; i < keys; i++)
#pragma GCC unroll 8
            for (int j = 0; j < NV; j++) {
                vf e = vf_exp2_neg(vf_load(s + i * QB + j * VL) - m[j]);
                t[j] += e;
                vf_store(s + i * QB + j * VL, e);
            }
    }
#if GRAFT_ISA_LEVEL >= 3
    const __m512i order =
        _mm512_set_epi16(31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9, 24, 8, 23, 7, 22, 6,
                         21, 5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0);
    for (; pairs && i < keys; i += 2)
#pragma GCC unroll 8
        for (int j = 0; j < NV; j++) {
            vf a = vf_exp2_neg_rough(vf_load(s + i * QB + j * VL) * scale - m[j]), b = {0};
            if (i + 1 < keys)
                b = vf_exp2_neg_rough(vf_load(s + (i + 1) * QB + j * VL) * scale - m[j]);
            t[j] += a + b;
            __m512i both = (__m512i)_mm512_cvtne2ps_pbh((__m512)b, (__m512)a);
            vf_store(s + i / 2 * QB + j * VL, (vf)_mm512_permutexvar_epi16(order, both));
        }
#endif
    for (int j = 0; j < NV; j++) vf_store(sum + j * VL, t[j]);
}

/* Takes out the keys after each query and finds the maxima again. */
static void mask(float *s, int keys, int64_t first_key, int64_t first_query, float *max)
{
    for (int j = 0; j < QB; j++) {
        float m = MASKED;
        for (int i = 0; i < keys; i++) {
            if (first_key + i > first_query + j) s[i * QB + j] = MASKED;
            if (s[i * QB + j] > m) m = s[i * QB + j];
        }
        max[j] = m;
    }
}

/* Rows of keys or values as float32, side by side. */
static void load_rows(const void *p, graft_dtype t, int64_t stride, int64_t first, int rows,
                      int dim, float *out)
{
    for (int r = 0; r < rows; r++) {
        int64_t at = (first + r) * stride;
        if (t == GRAFT_F32) {
            memcpy(out + (size_t)r * (size_t)dim, (const float *)p + at, (size_t)dim * 4);
        } else {
            SIMD(act)
            (GRAFT_ACT_NONE, (const uint16_t *)p + at, t, out + (size_t)r * (size_t)dim, GRAFT_F32,
             (size_t)dim);
        }
    }
}

/* Rows of keys as pairs along the head: the memory order, padded to whole pairs. */
static void load_key_pairs(const uint16_t *p, int64_t stride, int64_t first, int rows, int dim,
                           int words, float *out)
{
    for (int r = 0; r < rows; r++) {
        uint16_t *to = (uint16_t *)(void *)(out + (size_t)r * (size_t)words);
        memcpy(to, p + (first + r) * stride, (size_t)dim * 2);
        if (dim & 1) to[dim] = 0;
    }
}

/* Rows of values as pairs along the keys. */
static void load_value_pairs(const uint16_t *p, int64_t stride, int64_t first, int rows, int dim,
                             float *out)
{
    for (int r = 0; r < rows; r += 2) {
        const uint16_t *a = p + (first + r) * stride;
        const uint16_t *b = r + 1 < rows ? a + stride : NULL;
        uint32_t *to = (uint32_t *)(void *)(out + (size_t)(r / 2) * (size_t)dim);
        for (int i = 0; i < dim; i++) to[i] = a[i] | (b ? (uint32_t)b[i] << 16 : 0);
    }
}

#if VL == 16
static inline void transpose(vf r[16])
{
    __m512 t[16], u[16];
#pragma GCC unroll 8
    for (int i = 0; i < 8; i++) {
        t[2 * i] = _mm512_unpacklo_ps((__m512)r[2 * i], (__m512)r[2 * i + 1]);
        t[2 * i + 1] = _mm512_unpackhi_ps((__m512)r[2 * i], (__m512)r[2 * i + 1]);
    }
#pragma GCC unroll 8
    for (int i = 0; i < 16; i += 4)
        for (int j = 0; j < 2; j++) {
            __m512d a = _mm512_castps_pd(t[i + j]), b = _mm512_castps_pd(t[i + j + 2]);
            u[i + 2 * j] = _mm512_castpd_ps(_mm512_unpacklo_pd(a, b));
            u[i + 2 * j + 1] = _mm512_castpd_ps(_mm512_unpackhi_pd(a, b));
        }
#pragma GCC unroll 8
    for (int c = 0; c < 4; c++) {
        __m512 a = _mm512_shuffle_f32x4(u[c], u[4 + c], 0x88);
        __m512 b = _mm512_shuffle_f32x4(u[8 + c], u[12 + c], 0x88);
        __m512 d = _mm512_shuffle_f32x4(u[c], u[4 + c], 0xdd);
        __m512 e = _mm512_shuffle_f32x4(u[8 + c], u[12 + c], 0xdd);
        r[c] = (vf)_mm512_shuffle_f32x4(a, b, 0x88);
        r[4 + c] = (vf)_mm512_shuffle_f32x4(d, e, 0x88);
        r[8 + c] = (vf)_mm512_shuffle_f32x4(a, b, 0xdd);
        r[12 + c] = (vf)_mm512_shuffle_f32x4(d, e, 0xdd);
    }
}

/* Up to VL words of a row of queries: scaled values, or pairs as they are. */
INLINE vf query_words(int pairs, const graft_cpu_attention *a, int64_t at, int i, float factor)
{
    int left = a->head_dim - (pairs ? 2 * i : i);
    if (pairs) {
        const uint16_t *p = (const uint16_t *)a->q + at + 2 * i;
        __mmask32 m = left >= 32 ? 0xffffffffu : (1u << left) - 1;
        return (vf)_mm512_maskz_loadu_epi16(m, p);
    }
    size_t from = (size_t)(at + i);
    vf v =
        left >= VL ? vf_get(a->q, a->dtype, from) : vf_get_tail(a->q, a->dtype, from, (size_t)left);
    return v * factor;
}

/* One panel of queries, transposed; lanes beyond the last query are zero. */
static void load_queries(int pairs, const graft_cpu_attention *a, int64_t first, int n, float *q)
{
    int words = pairs ? (a->head_dim + 1) / 2 : a->head_dim;
    float factor = (float)((double)a->scale * LOG2E);
    for (int j = 0; j < QB; j += VL)
        for (int i = 0; i < words; i += VL) {
            vf r[VL];
            for (int k = 0; k < VL; k++)
                r[k] = j + k < n ? query_words(pairs, a, (first + j + k) * a->q_stride, i, factor)
                                 : (vf){0};
            transpose(r);
            for (int k = 0; k < VL && i + k < words; k++) vf_store(q + (i + k) * QB + j, r[k]);
        }
}

static void store_results(const graft_cpu_attention *a, int64_t first, int n, const float *o,
                          const float *sum)
{
    for (int j = 0; j < n; j += VL) {
        vf inverse = 1.0f / vf_load(sum + j);
        for (int i = 0; i < a->head_dim; i += VL) {
            int left = a->head_dim - i;
            vf r[VL];
            for (int k = 0; k < VL; k++)
                r[k] = k < left ? vf_load(o + (i + k) * QB + j) * inverse : (vf){0};
            transpose(r);
            for (int k = 0; k < VL && j + k < n; k++) {
                size_t at = (size_t)((first + j + k) * a->out_stride + i);
                if (left >= VL) {
                    vf_put(a->out, a->dtype, at, r[k]);
                } else {
                    vf_put_tail(a->out, a->dtype, at, (size_t)left, r[k]);
                }
            }
        }
    }
}
#else
static float element(const void *p, graft_dtype t, int64_t i)
{
    return t == GRAFT_F32 ? ((const float *)p)[i] : graft_bf16_to_f32(((const uint16_t *)p)[i]);
}

/* One panel of queries, transposed; lanes beyond the last query are zero. */
static void load_queries(int pairs, const graft_cpu_attention *a, int64_t first, int n, float *q)
{
    int dim = a->head_dim;
    float factor = (float)((double)a->scale * LOG2E);
    for (int j = 0; j < QB; j++) {
        int64_t at = (first + j) * a->q_stride;
        if (pairs) {
            for (int i = 0; i < (dim + 1) / 2; i++) {
                uint16_t w[2] = {0, 0};
                if (j < n) w[0] = ((const uint16_t *)a->q)[at + 2 * i];
                if (j < n && 2 * i + 1 < dim) w[1] = ((const uint16_t *)a->q)[at + 2 * i + 1];
                memcpy(q + i * QB + j, w, sizeof w);
            }
        } else {
            for (int i = 0; i < dim; i++)
                q[i * QB + j] = j < n ? element(a->q, a->dtype, at + i) * factor : 0.0f;
        }
    }
}

static void store_results(const graft_cpu_attention *a, int64_t first, int n, const float *o,
                          const float *sum)
{
    for (int j = 0; j < n; j++) {
        int64_t at = (first + j) * a->out_stride;
        float r = 1.0f / sum[j];
        for (int i = 0; i < a->head_dim; i++) {
            float v = o[i * QB + j] * r;
            if (a->dtype == GRAFT_F32) {
                ((float *)a->out)[at + i] = v;
            } else {
                ((uint16_t *)a->out)[at + i] = graft_f32_to_bf16(v);
            }
        }
    }
}
#endif

INLINE void panels_loop(int pairs, const graft_cpu_attention *a, int64_t queries, int64_t first,
                        int panels, const scratch *w)
{
    int dim = a->head_dim, words = pairs ? (dim + 1) / 2 : dim;
    float scale = pairs ? (float)((double)a->scale * LOG2E) : 1.0f;
    float decay[QB] __attribute__((aligned(64)));
    for (int64_t key = 0; key < a->keys; key += KB) {
        int keys = a->keys - key < KB ? (int)(a->keys - key) : KB;
        if (a->causal && key >= (first + panels) * QB) break;
        if (pairs) {
            load_key_pairs(a->k, a->k_stride, key, keys, dim, words, w->k);
            load_value_pairs(a->v, a->v_stride, key, keys, dim, w->v);
        } else {
            load_rows(a->k, a->dtype, a->k_stride, key, keys, dim, w->k);
            load_rows(a->v, a->dtype, a->v_stride, key, keys, dim, w->v);
        }
        for (int p = 0; p < panels; p++) {
            int64_t query = (first + p) * QB;
            if (query >= queries || (a->causal && key >= query + QB)) continue;
            score_block(pairs, w->k, w->q + (size_t)p * QB * (size_t)words, words, keys, w->s,
                        decay);
            if (a->causal && key + keys - 1 > query) mask(w->s, keys, key, query, decay);
            weights(pairs, w->s, keys, scale, w->max + p * QB, w->sum + p * QB, decay);
            value_block(pairs, w->v, w->s, dim, pairs ? (keys + 1) / 2 : keys, decay,
                        w->o + (size_t)p * QB * (size_t)dim);
        }
    }
}

size_t SIMD(attention_scratch)(graft_dtype dtype, int32_t head_dim, int32_t panels)
{
    (void)dtype;
    size_t d = (size_t)head_dim, n = (size_t)panels;
    size_t floats = n * QB * (2 * d + 2) + KB * QB + 2 * KB * d;
    return (floats * sizeof(float) + 4 * 64 + 63) & ~(size_t)63;
}

static float *carve(char **at, size_t floats)
{
    float *p = (float *)(void *)*at;
    *at += (floats * sizeof(float) + 63) & ~(size_t)63;
    return p;
}

void SIMD(attention)(const graft_cpu_attention *a, int64_t queries, int64_t first, int32_t panels,
                     void *memory)
{
    int pairs = GRAFT_ISA_LEVEL >= 3 && a->dtype == GRAFT_BF16 && a->scale > 0;
    size_t d = (size_t)a->head_dim, words = pairs ? (d + 1) / 2 : d, n = (size_t)panels * QB;
    char *at = memory;
    scratch w;
    w.q = carve(&at, n * words);
    w.o = carve(&at, n * d);
    w.max = carve(&at, n);
    w.sum = carve(&at, n);
    w.s = carve(&at, KB * QB);
    w.k = carve(&at, KB * words);
    w.v = carve(&at, KB * d);
    memset(w.o, 0, n * d * sizeof(float));
    memset(w.sum, 0, n * sizeof(float));
    for (size_t i = 0; i < n; i++) w.max[i] = LOWEST;
    for (int p = 0; p < panels; p++) {
        int64_t query = (first + p) * QB, left = queries - query;
        if (left > 0)
            load_queries(pairs, a, query, left < QB ? (int)left : QB, w.q + (size_t)p * QB * words);
    }
    if (pairs) {
        panels_loop(1, a, queries, first, panels, &w);
    } else {
        panels_loop(0, a, queries, first, panels, &w);
    }
    for (int p = 0; p < panels; p++) {
        int64_t query = (first + p) * QB, left = queries - query;
        if (left > 0)
            store_results(a, query, left < QB ? (int)left : QB, w.o + (size_t)p * QB * d,
                          w.sum + p * QB);
    }
}
