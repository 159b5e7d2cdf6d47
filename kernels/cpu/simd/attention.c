/* Attention of one head without the score matrix: keys are taken in blocks, the softmax is kept
 * running (Milakov and Gimelshein, "Online normalizer calculation for softmax", 2018; Dao et al.,
 * "FlashAttention", 2022).
 *
 * Everything stands transposed, queries along the lanes: a panel is NV vectors of queries, scores
 * are rows of a panel by key, results rows of a panel by head element. So maxima, sums and
 * exponentials are taken lane by lane, both products broadcast one operand and stream the other,
 * and any head_dim fills the vectors. attention_pairs.c does the same with BF16 instructions. */
#include "kernels/cpu/simd/attention.h"

#define ROWS 6
/* Keys of a block. Scores of a block and a panel of queries stay in the first-level cache. */
#define KB 64

typedef struct scratch {
    float *q, *o, *max, *sum; /* per panel: head_dim*QB twice, QB, QB */
    float *s, *k, *v;         /* scores KB*QB, keys and values KB*head_dim */
} scratch;

/* Scores of `rows` keys and their maxima per lane. */
INLINE void score_tile(int rows, const float *k, const float *q, int words, float *s, vf max[NV])
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
            for (int j = 0; j < NV; j++) acc[r][j] = acc[r][j] + vf_set(k[r * words + i]) * b[j];
    }
#pragma GCC unroll 8
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 8
        for (int j = 0; j < NV; j++) {
            vf_store(s + r * QB + j * VL, acc[r][j]);
            max[j] = vf_max(max[j], acc[r][j]);
        }
}

INLINE void score_block(const float *k, const float *q, int words, int keys, float *s, float *max)
{
    vf m[NV];
    for (int j = 0; j < NV; j++) m[j] = vf_set(MASKED);
    int r = 0;
    for (; r + ROWS <= keys; r += ROWS) score_tile(ROWS, k + r * words, q, words, s + r * QB, m);
    switch (keys - r) {
    case 1:
        score_tile(1, k + r * words, q, words, s + r * QB, m);
        break;
    case 2:
        score_tile(2, k + r * words, q, words, s + r * QB, m);
        break;
    case 3:
        score_tile(3, k + r * words, q, words, s + r * QB, m);
        break;
    case 4:
        score_tile(4, k + r * words, q, words, s + r * QB, m);
        break;
    case 5:
        score_tile(5, k + r * words, q, words, s + r * QB, m);
        break;
    default:
        break;
    }
    for (int j = 0; j < NV; j++) vf_store(max + j * VL, m[j]);
}

/* Rows r .. r+rows-1 of the result: o = o * decay + sum over the block of value * weight. */
INLINE void value_tile(int rows, const float *v, const float *p, int dim, int words,
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
            for (int j = 0; j < NV; j++) acc[r][j] = acc[r][j] + vf_set(v[i * dim + r]) * b[j];
    }
#pragma GCC unroll 8
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 8
        for (int j = 0; j < NV; j++) vf_store(o + r * QB + j * VL, acc[r][j]);
}

INLINE void value_block(const float *v, const float *p, int dim, int words, const float *decay,
                        float *o)
{
    int r = 0;
    if (dim % 6 && dim % 5 == 0) {
        for (; r < dim; r += 5) value_tile(5, v + r, p, dim, words, decay, o + r * QB);
        return;
    }
    for (; r + ROWS <= dim; r += ROWS) value_tile(ROWS, v + r, p, dim, words, decay, o + r * QB);
    switch (dim - r) {
    case 1:
        value_tile(1, v + r, p, dim, words, decay, o + r * QB);
        break;
    case 2:
        value_tile(2, v + r, p, dim, words, decay, o + r * QB);
        break;
    case 3:
        value_tile(3, v + r, p, dim, words, decay, o + r * QB);
        break;
    case 4:
        value_tile(4, v + r, p, dim, words, decay, o + r * QB);
        break;
    case 5:
        value_tile(5, v + r, p, dim, words, decay, o + r * QB);
        break;
    default:
        break;
    }
}

/* Scores to weights in place; queries have scale and log2 e in them. In: the block's maxima in
 * `decay`. Out: the factor for earlier results there, `max` and `sum` brought up to date. */
INLINE void weights(float *s, int keys, float *max, float *sum, float *decay)
{
    vf m[NV], t[NV];
    for (int j = 0; j < NV; j++) {
        vf before = vf_load(max + j * VL);
        m[j] = vf_max(before, vf_load(decay + j * VL));
        vf d = vf_exp2_neg(before - m[j]);
        t[j] = vf_load(sum + j * VL) * d;
        vf_store(decay + j * VL, d);
        vf_store(max + j * VL, m[j]);
    }
    for (int i = 0; i < keys; i++)
#pragma GCC unroll 8
        for (int j = 0; j < NV; j++) {
            vf e = vf_exp2_neg(vf_load(s + i * QB + j * VL) - m[j]);
            t[j] += e;
            vf_store(s + i * QB + j * VL, e);
        }
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

/* Scores of keys, which are to base 2 here, on their way to the cap. */
static void cap_scores(float cap, float *s, int keys)
{
    const vf most = vf_set((float)((double)cap * LOG2E));
    for (int i = 0; i < keys * QB; i += VL) vf_store(s + i, most * vf_tanh(vf_load(s + i) / most));
}

#if HAS_TRANSPOSE
/* Up to VL elements of a query's bias, to base 2. */
INLINE vf bias_elements(const graft_cpu_attention *a, int64_t query, int64_t key, int left)
{
    size_t at = (size_t)(query * a->bias_stride + key);
    vf v = left >= VL ? vf_load(a->bias + at) : vf_get_tail(a->bias, GRAFT_F32, at, (size_t)left);
    return v * vf_set((float)LOG2E);
}

/* Adds the bias of n queries and finds the maxima again. */
static void add_bias(const graft_cpu_attention *a, float *s, int keys, int64_t key, int64_t query,
                     int n, float *max)
{
    for (int j = 0; j < QB; j += VL) {
        vf m = vf_set(MASKED);
        for (int i = 0; i < keys; i += VL) {
            vf r[VL];
            for (int k = 0; k < VL; k++)
                r[k] = j + k < n ? bias_elements(a, query + j + k, key + i, keys - i) : (vf){0};
            vf_transpose(r);
            for (int k = 0; k < VL && i + k < keys; k++) {
                vf v = vf_load(s + (i + k) * QB + j) + r[k];
                vf_store(s + (i + k) * QB + j, v);
                m = vf_max(m, v);
            }
        }
        vf_store(max + j, m);
    }
}
#else
/* Adds the bias of n queries and finds the maxima again. */
static void add_bias(const graft_cpu_attention *a, float *s, int keys, int64_t key, int64_t query,
                     int n, float *max)
{
    for (int j = 0; j < n; j++) {
        const float *bias = a->bias + (query + j) * a->bias_stride + key;
        float m = MASKED;
        for (int i = 0; i < keys; i++) {
            s[i * QB + j] += bias[i] * (float)LOG2E;
            if (s[i * QB + j] > m) m = s[i * QB + j];
        }
        max[j] = m;
    }
}
#endif

/* Few values, for which a call of memcpy() takes as long as the copying. */
INLINE void copy_row(const float *from, int n, float *to)
{
    int i = 0;
    for (; i + VL <= n; i += VL) vf_store(to + i, vf_load(from + i));
    for (; i < n; i++) to[i] = from[i];
}

/* Rows of keys or values as float32, side by side. */
static void load_rows(const void *p, graft_dtype t, int64_t stride, int64_t first, int rows,
                      int dim, float *out)
{
    for (int r = 0; r < rows; r++) {
        int64_t at = (first + r) * stride;
        if (t == GRAFT_F32) {
            copy_row((const float *)p + at, dim, out + (size_t)r * (size_t)dim);
        } else {
            SIMD(act)
            (GRAFT_ACT_NONE, (const uint16_t *)p + at, t, out + (size_t)r * (size_t)dim, GRAFT_F32,
             (size_t)dim);
        }
    }
}

#if HAS_TRANSPOSE
/* Up to VL elements of a row of queries, scaled. */
INLINE vf query_elements(const graft_cpu_attention *a, int64_t at, int i, float factor)
{
    int left = a->head_dim - i;
    size_t from = (size_t)(at + i);
    vf v =
        left >= VL ? vf_get(a->q, a->dtype, from) : vf_get_tail(a->q, a->dtype, from, (size_t)left);
    return v * factor;
}

/* One panel of queries, transposed; lanes beyond the last query are zero. */
static void load_queries(const graft_cpu_attention *a, int64_t first, int n, float *q)
{
    int dim = a->head_dim;
    float factor = (float)((double)a->scale * LOG2E);
    for (int j = 0; j < QB; j += VL)
        for (int i = 0; i < dim; i += VL) {
            vf r[VL];
            for (int k = 0; k < VL; k++)
                r[k] = j + k < n ? query_elements(a, (first + j + k) * a->q_stride, i, factor)
                                 : (vf){0};
            vf_transpose(r);
            for (int k = 0; k < VL && i + k < dim; k++) vf_store(q + (i + k) * QB + j, r[k]);
        }
}
#else
static float element(const void *p, graft_dtype t, int64_t i)
{
    return t == GRAFT_F32 ? ((const float *)p)[i] : graft_bf16_to_f32(((const uint16_t *)p)[i]);
}

/* One panel of queries, transposed; lanes beyond the last query are zero. */
static void load_queries(const graft_cpu_attention *a, int64_t first, int n, float *q)
{
    float factor = (float)((double)a->scale * LOG2E);
    for (int j = 0; j < QB; j++) {
        int64_t at = (first + j) * a->q_stride;
        for (int i = 0; i < a->head_dim; i++)
            q[i * QB + j] = j < n ? element(a->q, a->dtype, at + i) * factor : 0.0f;
    }
}
#endif

static void panels_loop(const graft_cpu_attention *a, int64_t queries, int64_t first, int panels,
                        const scratch *w)
{
    int dim = a->head_dim;
    float decay[QB] __attribute__((aligned(64)));
    for (int64_t key = 0; key < a->keys; key += KB) {
        int keys = a->keys - key < KB ? (int)(a->keys - key) : KB;
        if (a->causal && key >= (first + panels) * QB) break;
        load_rows(a->k, a->dtype, a->k_stride, key, keys, dim, w->k);
        load_rows(a->v, a->dtype, a->v_stride, key, keys, dim, w->v);
        for (int p = 0; p < panels; p++) {
            int64_t query = (first + p) * QB, left = queries - query;
            if (left <= 0 || (a->causal && key >= query + QB)) continue;
            score_block(w->k, w->q + (size_t)p * QB * (size_t)dim, dim, keys, w->s, decay);
            if (a->causal && key + keys - 1 > query) mask(w->s, keys, key, query, decay);
            if (a->cap > 0) cap_scores(a->cap, w->s, keys);
            if (a->bias) add_bias(a, w->s, keys, key, query, left < QB ? (int)left : QB, decay);
            weights(w->s, keys, w->max + p * QB, w->sum + p * QB, decay);
            value_block(w->v, w->s, dim, keys, decay, w->o + (size_t)p * QB * (size_t)dim);
        }
    }
}

#if GRAFT_ISA_LEVEL >= 3
static int uses_pairs(graft_dtype dtype, float scale)
{
    return dtype == GRAFT_BF16 && scale > 0;
}
#endif

/* Panels that share one pass over the keys: their queries and results must stay in the
 * second-level cache beside a block of keys and values. */
int32_t SIMD(attention_group)(graft_dtype dtype, int32_t head_dim, int64_t keys)
{
#if GRAFT_ISA_LEVEL >= 3
    if (uses_pairs(dtype, 1)) return graft_cpu_attention_pairs_group(head_dim, keys);
#endif
    (void)dtype, (void)keys;
    int64_t n = (int64_t)(384 << 10) / ((int64_t)QB * head_dim * 8);
    return n < 1 ? 1 : n > 32 ? 32 : (int32_t)n;
}

size_t SIMD(attention_scratch)(graft_dtype dtype, int32_t head_dim, int64_t keys, int32_t panels)
{
    size_t d = (size_t)head_dim, n = (size_t)panels;
    size_t floats = n * QB * (2 * d + 2) + KB * QB + 2 * KB * d;
    size_t bytes = (floats * sizeof(float) + 4 * 64 + 63) & ~(size_t)63;
#if GRAFT_ISA_LEVEL >= 3
    size_t pairs = graft_cpu_attention_pairs_scratch(head_dim, keys, panels);
    if (uses_pairs(dtype, 1) && pairs > bytes) bytes = pairs;
#endif
    (void)dtype, (void)keys;
    return bytes;
}

void SIMD(attention)(const graft_cpu_attention *a, int64_t queries, int64_t first, int32_t panels,
                     void *memory)
{
#if GRAFT_ISA_LEVEL >= 3
    if (uses_pairs(a->dtype, a->scale) && !a->bias) {
        graft_cpu_attention_pairs(a, queries, first, panels, memory);
        return;
    }
#endif
    size_t d = (size_t)a->head_dim, n = (size_t)panels * QB;
    char *at = memory;
    scratch w;
    w.q = attention_carve(&at, n * d);
    w.o = attention_carve(&at, n * d);
    w.max = attention_carve(&at, n);
    w.sum = attention_carve(&at, n);
    w.s = attention_carve(&at, KB * QB);
    w.k = attention_carve(&at, KB * d);
    w.v = attention_carve(&at, KB * d);
    memset(w.o, 0, n * d * sizeof(float));
    memset(w.sum, 0, n * sizeof(float));
    for (size_t i = 0; i < n; i++) w.max[i] = LOWEST;
    for (int p = 0; p < panels; p++) {
        int64_t query = (first + p) * QB, left = queries - query;
        if (left > 0) load_queries(a, query, left < QB ? (int)left : QB, w.q + (size_t)p * QB * d);
    }
    panels_loop(a, queries, first, panels, &w);
    for (int p = 0; p < panels; p++) {
        int64_t query = (first + p) * QB, left = queries - query;
        if (left > 0)
            attention_store(a, query, left < QB ? (int)left : QB, w.o + (size_t)p * QB * d,
                            w.sum + p * QB);
    }
}
