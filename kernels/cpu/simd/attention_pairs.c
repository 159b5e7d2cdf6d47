/* The attention of attention.c with BF16 instructions: a word is a pair of neighbours in the summed
 * dimension, of heads in queries and keys, of keys in values and weights.
 *
 * Products keep one pipe busy in every cycle, so all else must go on beside them. Scores of a few
 * keys at a time (a tile) are turned into weights while the products of the next tile are under
 * way; of their instructions only a few use the products' pipe. So the largest score is not known
 * when the first weights are made: weights are relative to a reference of each query, which need
 * not be its maximum, for float32 has room. It starts with the first keys' maximum; when a block's
 * scores exceed it by 2^LIMIT, which hardly happens, results so far are scaled down and the block's
 * weights made again. */
#include "kernels/cpu/simd/attention.h"

#if GRAFT_ISA_LEVEL >= 3

#define ROWS  6 /* of scores or results worked on together */
#define TV    2 /* vectors of queries of a tile of scores */
#define ITEMS (ROWS / 2 * TV)
#define KB    192 /* keys of a block; a multiple of ROWS */
#define LIMIT 40.0f
/* Bytes of a section of keys and values, which stay in the second-level cache while all panels pass
 * over them; bytes of panels that wait for the next section. */
#define SECTION (1 << 20)
#define STATE   (2 << 20)

typedef struct scratch {
    float *k, *v, *p;           /* words of a section of keys and values; a block's weights */
    float *q, *o, *total, *ref; /* of each panel: words*QB, head_dim*QB, QB, QB (negative) */
} scratch;

/* What turning scores into weights reads; in memory, since registers are for sums. The weight
 * polynomial is 12.8 * 2^r for r of [0, 1), within 8e-5, scaled so that its first coefficient is 1:
 * (r + a)(r^2 + b) + c. What is common to all weights cancels. */
typedef struct weigher {
    float s[ITEMS * 2 * VL]; /* scores of one tile, item by item */
    float ref[QB], sum[QB], max[QB];
    float scale, a, b, c; /* scale: with log2 e in it */
} __attribute__((aligned(64))) weigher;

#define DP(acc, a, b)                                                                              \
    (vf) _mm512_dpbf16_ps((__m512)(acc), (__m512bh)_mm512_set1_epi32(a), (__m512bh)(b))

INLINE int32_t word(const float *p)
{
    int32_t w;
    memcpy(&w, p, sizeof w);
    return w;
}

/* What the vectors of queries of a tile have in registers. */
typedef struct column {
    vf ref, sum, max;
} column;

/* Scores of two keys to a vector of pairs of weights. */
INLINE vf weigh(const weigher *w, const float *s, column *c)
{
    const __m512i order =
        _mm512_set_epi16(31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9, 24, 8, 23, 7, 22, 6,
                         21, 5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0);
    vf y[2];
#pragma GCC unroll 2
    for (int i = 0; i < 2; i++) {
        vf x = vf_load(s + i * VL) * vf_set(w->scale) + c->ref;
        vf r = (vf)_mm512_reduce_ps((__m512)x, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC);
        vf z = (r + vf_set(w->a)) * (r * r + vf_set(w->b)) + vf_set(w->c);
        y[i] = (vf)_mm512_scalef_ps((__m512)z, (__m512)x);
    }
    __m512i both = (__m512i)_mm512_cvtne2ps_pbh((__m512)y[1], (__m512)y[0]);
    both = _mm512_permutexvar_epi16(order, both);
    c->sum = DP(c->sum, 0x3f803f80, both); /* of what is rounded, so that they add up to 1 */
    return (vf)both;
}

/* Takes out the scores of keys beyond a query's last one. */
INLINE void hide(vf acc[ROWS][TV], int first, const int32_t *last)
{
    for (int r = 0; r < ROWS; r++)
        for (int j = 0; j < TV; j++) {
            __m512i l = _mm512_loadu_si512(last + j * VL);
            __mmask16 m = _mm512_cmplt_epi32_mask(l, _mm512_set1_epi32(first + r));
            acc[r][j] = (vf)_mm512_mask_mov_ps((__m512)acc[r][j], m, _mm512_set1_ps(MASKED));
        }
}

/* Scores of ROWS keys and TV vectors of queries to w->s, and their maxima. Meanwhile `before`, if
 * any, gets the weights of the scores that stood there. The tile is small since more than a dozen
 * whole stores in a row hold up what follows them. last: NULL, or of each query the last key that
 * counts. */
INLINE void score_tile(weigher *w, const float *k, const float *q, int words, column col[TV],
                       float *before, int first, const int32_t *last)
{
    vf acc[ROWS][TV];
#pragma GCC unroll 8
    for (int r = 0; r < ROWS; r++)
#pragma GCC unroll 8
        for (int c = 0; c < TV; c++) acc[r][c] = (vf){0};
    int i = 0;
#pragma GCC unroll 8
    for (int item = 0; item < ITEMS; item++) {
#pragma GCC unroll 1
        for (int until = words * (item + 1); i < until; i += ITEMS, k++, q += QB) {
            vf b[TV];
#pragma GCC unroll 8
            for (int c = 0; c < TV; c++) b[c] = vf_load(q + c * VL);
#pragma GCC unroll 8
            for (int r = 0; r < ROWS; r++)
#pragma GCC unroll 8
                for (int c = 0; c < TV; c++) acc[r][c] = DP(acc[r][c], word(k + r * words), b[c]);
        }
        if (before)
            vf_store(before + item / TV * QB + item % TV * VL,
                     weigh(w, w->s + 2 * item * VL, &col[item % TV]));
    }
    if (last) hide(acc, first, last);
#pragma GCC unroll 8
    for (int c = 0; c < TV; c++)
#pragma GCC unroll 8
        for (int r = 0; r < ROWS; r++) {
            vf_store(w->s + ((r / 2 * TV + c) * 2 + r % 2) * VL, acc[r][c]);
            col[c].max = vf_max(col[c].max, acc[r][c]);
        }
}

/* Weights of a block for TV vectors of queries from j on, and their sums; nothing else changes but
 * the maxima. start: the reference is not known yet. */
static void score_queries(weigher *w, const float *k, const float *q, int words, int tiles, int j,
                          int first, const int32_t *last, bool start, float *p)
{
    column col[TV];
#pragma GCC unroll 8
    for (int c = 0; c < TV; c++)
        col[c] = (column){vf_load(w->ref + j + c * VL), {0}, vf_set(MASKED)};
    score_tile(w, k, q, words, col, NULL, first, last);
#pragma GCC unroll 8
    for (int c = 0; c < TV; c++)
        if (start) col[c].ref = -vf_max(vf_set(LOWEST), col[c].max * vf_set(w->scale));
    for (int t = 1; t < tiles; t++, p += ROWS / 2 * QB) {
        k += ROWS * words;
        first += ROWS;
        if (last) {
            score_tile(w, k, q, words, col, p, first, last);
        } else {
            score_tile(w, k, q, words, col, p, first, NULL);
        }
    }
#pragma GCC unroll 8
    for (int i = 0; i < ITEMS; i++)
        vf_store(p + i / TV * QB + i % TV * VL, weigh(w, w->s + 2 * i * VL, &col[i % TV]));
#pragma GCC unroll 8
    for (int c = 0; c < TV; c++) {
        vf_store(w->ref + j + c * VL, col[c].ref);
        vf_store(w->sum + j + c * VL, col[c].sum);
        vf_store(w->max + j + c * VL, col[c].max);
    }
}

static void score_block(weigher *w, const float *k, const float *q, int words, int tiles, int first,
                        const int32_t *last, bool start, float *p)
{
    for (int j = 0; j < QB; j += TV * VL)
        score_queries(w, k, q + j, words, tiles, j, first, last ? last + j : NULL, start, p + j);
}

/* Columns of values, which are rows of the result, that lie and are worked on together: from column
 * r on. */
INLINE int strip(int dim, int r)
{
    int wide = dim % 6 && dim % 5 == 0 ? 5 : ROWS;
    return dim - r >= wide ? wide : dim - r >= 4 ? 4 : 1;
}

/* Rows of the result: o += sum over the block of value * weight. */
INLINE void value_tile(int rows, const float *v, const float *p, int words, float *o)
{
    vf acc[ROWS][NV];
#pragma GCC unroll 8
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 8
        for (int j = 0; j < NV; j++) acc[r][j] = vf_load(o + r * QB + j * VL);
    for (int i = 0; i < words; i++) {
        vf b[NV];
#pragma GCC unroll 8
        for (int j = 0; j < NV; j++) b[j] = vf_load(p + i * QB + j * VL);
#pragma GCC unroll 8
        for (int r = 0; r < rows; r++)
#pragma GCC unroll 8
            for (int j = 0; j < NV; j++) acc[r][j] = DP(acc[r][j], word(v + i * rows + r), b[j]);
    }
#pragma GCC unroll 8
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 8
        for (int j = 0; j < NV; j++) vf_store_halves(o + r * QB + j * VL, acc[r][j]);
}

static void value_block(const float *v, const float *p, int dim, int words, float *o)
{
    for (int r = 0, n; r < dim; r += n, v += n * words, o += n * QB) {
        n = strip(dim, r);
        switch (n) {
        case 6:
            value_tile(6, v, p, words, o);
            break;
        case 5:
            value_tile(5, v, p, words, o);
            break;
        case 4:
            value_tile(4, v, p, words, o);
            break;
        default:
            value_tile(1, v, p, words, o);
            break;
        }
    }
}

/* Whether a score of the block exceeds its reference too far. */
static bool exceeds(const weigher *w)
{
    __mmask16 over = 0;
    for (int j = 0; j < QB; j += VL) {
        vf x = vf_load(w->max + j) * vf_set(w->scale) + vf_load(w->ref + j);
        over |= _mm512_cmp_ps_mask((__m512)x, _mm512_set1_ps(LIMIT), _CMP_GT_OQ);
    }
    return over;
}

/* Raises the references to the largest scores so far; the panel's results follow. */
static void raise(weigher *w, float *total, float *o, int dim)
{
    for (int j = 0; j < QB; j += VL) {
        vf ref = vf_load(w->ref + j), x = vf_load(w->max + j) * vf_set(-w->scale);
        vf decay = vf_exp2_neg(vf_min(vf_set(0), x - ref));
        vf_store(w->ref + j, vf_min(ref, x));
        vf_store(total + j, vf_load(total + j) * decay);
        for (int i = 0; i < dim; i++) vf_store(o + i * QB + j, vf_load(o + i * QB + j) * decay);
    }
}

/* Up to 16 words at p; what is beyond `left` elements reads as 0. */
INLINE __m512i pairs_of(const uint16_t *p, int left)
{
    __mmask32 m = left >= 32 ? 0xffffffffu : (1u << left) - 1;
    return _mm512_maskz_loadu_epi16(m, p);
}

/* Rows of keys as pairs along the head: the memory order, padded to whole pairs. */
static void load_keys(const graft_cpu_attention *a, int64_t first, int rows, int padded, float *out)
{
    int dim = a->head_dim, words = (dim + 1) / 2;
    for (int r = 0; r < padded; r++, out += words) {
        const uint16_t *x = (const uint16_t *)a->k + (first + r) * a->k_stride;
        for (int i = 0; i < words; i += VL) {
            __mmask16 m = words - i >= VL ? 0xffff : (__mmask16)((1u << (words - i)) - 1);
            __m512i v = r < rows ? pairs_of(x + 2 * i, dim - 2 * i) : _mm512_setzero_si512();
            _mm512_mask_storeu_epi32(out + i, m, v);
        }
    }
}

/* A block of values as pairs along the keys, strip by strip. */
static void load_values(const graft_cpu_attention *a, int64_t first, int rows, int padded,
                        float *out)
{
    int dim = a->head_dim;
    for (int c = 0, n; c < dim; c += n) {
        n = strip(dim, c);
        __mmask8 m = (__mmask8)((1u << n) - 1);
        for (int r = 0; r < padded; r += 2, out += n) {
            const uint16_t *x = (const uint16_t *)a->v + (first + r) * a->v_stride + c;
            const uint16_t *y = x + a->v_stride;
            __m256i v = _mm256_cvtepu16_epi32(_mm_maskz_loadu_epi16(r < rows ? m : 0, x));
            __m256i u = _mm256_cvtepu16_epi32(_mm_maskz_loadu_epi16(r + 1 < rows ? m : 0, y));
            _mm256_mask_storeu_epi32(out, m, _mm256_or_si256(v, _mm256_slli_epi32(u, 16)));
        }
    }
}

/* One panel of queries, transposed; lanes beyond the last query are zero. */
static void load_queries(const graft_cpu_attention *a, int64_t first, int n, float *q)
{
    int words = (a->head_dim + 1) / 2;
    for (int j = 0; j < QB; j += VL)
        for (int i = 0; i < words; i += VL) {
            vf r[VL];
            for (int k = 0; k < VL; k++) {
                const uint16_t *x = (const uint16_t *)a->q + (first + j + k) * a->q_stride + 2 * i;
                r[k] = j + k < n ? (vf)pairs_of(x, a->head_dim - 2 * i) : (vf){0};
            }
            vf_transpose(r);
            for (int k = 0; k < VL && i + k < words; k++) vf_store(q + (i + k) * QB + j, r[k]);
        }
}

/* The last key that counts for each query of a panel; whether this block has keys beyond one. */
static bool last_keys(const graft_cpu_attention *a, int64_t query, int64_t key, int padded,
                      int32_t last[QB])
{
    int64_t least = a->causal && query < a->keys ? query : a->keys - 1;
    if (key + padded - 1 <= least) return false;
    for (int j = 0; j < QB; j++)
        last[j] = (int32_t)(a->causal && query + j < a->keys ? query + j : a->keys - 1);
    return true;
}

/* A panel of queries on keys from `first` to before `end`, whose words are at m->k and m->v. */
static void panel(const graft_cpu_attention *a, const scratch *m, weigher *w, int64_t query,
                  int64_t first, int64_t end, float *q, float *o, float *total)
{
    int dim = a->head_dim, words = (dim + 1) / 2;
    int32_t last[QB];
    for (int64_t key = first; key < end && !(a->causal && key >= query + QB); key += KB) {
        const float *k = m->k + (key - first) * words, *v = m->v + (key - first) / 2 * dim;
        int tiles = end - key < KB ? (int)((end - key + ROWS - 1) / ROWS) : KB / ROWS;
        const int32_t *hidden = last_keys(a, query, key, tiles * ROWS, last) ? last : NULL;
        score_block(w, k, q, words, tiles, (int)key, hidden, key == 0, m->p);
        if (exceeds(w)) {
            raise(w, total, o, dim);
            score_block(w, k, q, words, tiles, (int)key, hidden, false, m->p);
        }
        for (int j = 0; j < QB; j += VL)
            vf_store(total + j, vf_load(total + j) + vf_load(w->sum + j));
        value_block(v, m->p, dim, tiles * ROWS / 2, o);
    }
}

/* Keys whose words are made at a time. */
static int64_t section(int32_t head_dim, int64_t keys)
{
    int64_t n = SECTION / (4 * (int64_t)head_dim) / KB * KB;
    return keys <= n ? (keys + ROWS - 1) / ROWS * ROWS : n < KB ? KB : n;
}

int32_t graft_cpu_attention_pairs_group(int32_t head_dim, int64_t keys)
{
    int64_t n = keys <= section(head_dim, keys) ? 64 : STATE / (QB * 6 * (int64_t)head_dim);
    return n < 1 ? 1 : n > 64 ? 64 : (int32_t)n;
}

static size_t lay_out(int32_t head_dim, int64_t keys, int32_t panels, char *at, scratch *m)
{
    size_t d = (size_t)head_dim, words = (d + 1) / 2, n = (size_t)section(head_dim, keys);
    size_t states = (size_t)keys <= n ? 1 : (size_t)panels;
    const char *start = at;
    m->k = attention_carve(&at, n * words);
    m->v = attention_carve(&at, n / 2 * d);
    m->p = attention_carve(&at, KB / 2 * QB);
    m->q = attention_carve(&at, states * QB * words);
    m->o = attention_carve(&at, states * QB * d);
    m->total = attention_carve(&at, states * QB);
    m->ref = attention_carve(&at, states * QB);
    return (size_t)(at - start);
}

size_t graft_cpu_attention_pairs_scratch(int32_t head_dim, int64_t keys, int32_t panels)
{
    scratch m;
    return lay_out(head_dim, keys, panels, NULL, &m);
}

void graft_cpu_attention_pairs(const graft_cpu_attention *a, int64_t queries, int64_t first,
                               int32_t panels, void *memory)
{
    size_t d = (size_t)a->head_dim, words = (d + 1) / 2;
    int64_t step = section(a->head_dim, a->keys);
    weigher w = {.scale = (float)((double)a->scale * LOG2E),
                 .a = 2.89738595f,
                 .b = 8.91813903f,
                 .c = -13.0237657f};
    scratch m;
    lay_out(a->head_dim, a->keys, panels, memory, &m);
    for (int64_t key = 0; key < a->keys; key += step) {
        int64_t end = a->keys - key < step ? a->keys : key + step;
        int rows = (int)(end - key), padded = (rows + ROWS - 1) / ROWS * ROWS;
        load_keys(a, key, rows, padded, m.k);
        for (int r = 0; r < rows; r += KB)
            load_values(a, key + r, rows - r < KB ? rows - r : KB,
                        padded - r < KB ? padded - r : KB, m.v + (size_t)r / 2 * d);
        for (int p = 0; p < panels; p++) {
            size_t state = a->keys <= step ? 0 : (size_t)p * QB;
            int64_t query = (first + p) * QB, left = queries - query;
            float *q = m.q + state * words, *o = m.o + state * d, *total = m.total + state;
            if (left <= 0) break;
            if (left > QB) left = QB;
            if (key == 0) {
                load_queries(a, query, (int)left, q);
                memset(o, 0, QB * d * sizeof(float));
                memset(total, 0, QB * sizeof(float));
                memset(m.ref + state, 0, QB * sizeof(float)); /* the first block finds it */
            }
            memcpy(w.ref, m.ref + state, sizeof w.ref);
            panel(a, &m, &w, query, key, end, q, o, total);
            memcpy(m.ref + state, w.ref, sizeof w.ref);
            if (end == a->keys) attention_store(a, query, (int)left, o, total);
        }
    }
}
#endif
