/* The attention of attention_pairs.c in 8-bit integers (kernels/quant.h), with VNNI instructions: a
 * word is four levels that are neighbours in the summed dimension, of heads in queries and keys, of
 * keys in weights and values.
 *
 * Weights of 8 bits need the largest score of their block, so scores of a block wait in memory
 * until they all are there. They become weights while the products of the next block's scores are
 * under way, since products keep one pipe busy in every cycle. Blocks join as in attention_pairs.c:
 * relative to a reference of each query, which need not be its maximum, for float32 has room. */
#include "kernels/cpu/simd/attention.h"

#if GRAFT_ISA_LEVEL >= 3

#define ROWS  8 /* keys of a tile of scores; results worked on together */
#define TV    2 /* vectors of queries of a tile */
#define LANES (TV * VL)
#define ITEMS (ROWS / 4 * TV)
#define KB    256 /* keys of a block; a multiple of ROWS */
#define LIMIT 60.0f
#define STEEP 0x1p14f /* scores from which on a block's largest one is taken off first */
#define LEAST 1e-24f  /* of a query's scale: keys that are not there must stay far below others */
/* Bytes of a section of keys and values, which stay in the second-level cache while all panels pass
 * over them; bytes of panels that wait for the next section. */
#define SECTION (1 << 19)
#define STATE   (2 << 20)

/* A weight is 2^x as the polynomial (r + a) r + b of the fraction r of [0, 1), within 0.0018, whose
 * first coefficient is 1: 2^x / 0.33719. So the largest, 255, has this x. */
#define WEIGHT_A 1.95034683f
#define WEIGHT_B 2.97080697f
#define LARGEST  6.42598469f

/* Rows of keys: their levels, and what sums begin with and are worth. */
typedef struct key_rows {
    int32_t *word, *start; /* start: -128 * the sum of the levels, as queries have 128 added */
    float *scale;
} key_rows;

typedef struct scratch {
    key_rows k;
    int32_t *v, *p;                    /* words of a section of values; a block's weights */
    float *mean, *v_scale, *v_inverse; /* of each column, over all keys */
    float *score[2];                   /* of two blocks: KB * LANES */
    float *column;                     /* of VL rows: their values, column by column */
    int32_t *row;                      /* and words */
    int32_t *q;                        /* of each panel: words * QB */
    float *o, *total, *ref, *q_scale;  /* head_dim * QB, QB, QB, QB */
} scratch;

/* Scores of a block for LANES queries, in units of a key's and a query's scale. */
typedef struct scores {
    float *t;
    vf max[TV];
    int tiles;
} scores;

/* What turns scores into weights: x = score * scale + ref. */
typedef struct weigher {
    vf scale[TV], ref[TV];
    vf total[TV]; /* of the weights */
    int32_t *p;
} weigher;

/* What vectors of queries have in registers. */
typedef struct column {
    vf scale, ref, max;
    __m512i sum;
} column;

/* A macro, since compilers copy sums to and fro when the instruction is a function: unsigned bytes
 * x by signed ones y. */
#define DOT(sum, x, y) __asm__("vpdpbusd %2, %1, %0" : "+v"(sum) : "v"(x), "v"(y))

/* ------------------------------------------------------------------ products */

/* The bytes of four vectors, packed, to words: one byte of each. */
INLINE __m512i to_words(__m512i packed)
{
    const __m512i order =
        _mm512_broadcast_i32x4(_mm_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15));
    return _mm512_shuffle_epi8(packed, order);
}

/* Scores of four keys to a vector of words of weights. */
INLINE void weigh(column *c, const float *t, int32_t *p)
{
    __m512i n[4];
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) {
        vf x = vf_load(t + i * LANES) * c->scale + c->ref;
        vf r = (vf)_mm512_reduce_ps((__m512)x, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC);
        vf z = (r + vf_set(WEIGHT_A)) * r + vf_set(WEIGHT_B);
        n[i] = _mm512_cvtps_epi32(_mm512_scalef_ps((__m512)z, (__m512)x));
    }
    __m512i bytes = to_words(
        _mm512_packus_epi16(_mm512_packus_epi32(n[0], n[1]), _mm512_packus_epi32(n[2], n[3])));
    DOT(c->sum, bytes, _mm512_set1_epi8(1));
    vf_store((float *)p, (vf)bytes);
}

/* A part of a tile's scores at t to words at p. */
INLINE void weigh_item(column col[TV], const float *t, int32_t *p, int item)
{
    int c = item % TV, four = item / TV;
    weigh(&col[c], t + four * 4 * LANES + c * VL, p + four * LANES + c * VL);
}

/* Scores of ROWS keys to t, and their maxima; meanwhile those at `before`, if any, become weights
 * at p. valid: keys of the tile that there are. */
INLINE void score_tile(const int32_t *word, const int32_t *start, const float *scale,
                       const int32_t *q, int words, int valid, float *t, column col[TV],
                       const float *before, int32_t *p)
{
    __m512i acc[ROWS][TV];
#pragma GCC unroll 8
    for (int r = 0; r < ROWS; r++)
#pragma GCC unroll 8
        for (int c = 0; c < TV; c++) acc[r][c] = _mm512_set1_epi32(start[r]);
    int i = 0;
#pragma GCC unroll 8
    for (int item = 0; item < ITEMS; item++) {
#pragma GCC unroll 1
        for (int until = words * (item + 1); i < until; i += ITEMS, word++, q += QB) {
            __m512i b[TV];
#pragma GCC unroll 8
            for (int c = 0; c < TV; c++) b[c] = _mm512_load_si512(q + c * VL);
#pragma GCC unroll 8
            for (int r = 0; r < ROWS; r++) {
                __m512i a = _mm512_set1_epi32(word[r * words]);
#pragma GCC unroll 8
                for (int c = 0; c < TV; c++) DOT(acc[r][c], b[c], a);
            }
        }
        if (before) weigh_item(col, before, p, item);
    }
#pragma GCC unroll 8
    for (int r = 0; r < ROWS; r++) {
        vf worth = vf_set(scale[r]);
#pragma GCC unroll 8
        for (int c = 0; c < TV; c++) {
            vf x = (vf)_mm512_cvtepi32_ps(acc[r][c]) * worth;
            if (r >= valid) x = vf_set(LOWEST);
            vf_store(t + r * LANES + c * VL, x);
            col[c].max = vf_max(col[c].max, x);
        }
    }
}

/* Scores of `count` keys from `first` on; meanwhile those of the block before, if any, become
 * weights. */
static void score_block(const key_rows *k, int64_t first, int count, const int32_t *q, int words,
                        scores *now, weigher *w, const scores *before)
{
    const int32_t *word = k->word + first * words, *start = k->start + first;
    const float *scale = k->scale + first;
    int tiles = (count + ROWS - 1) / ROWS, weighed = before ? before->tiles : 0;
    int both = weighed < count / ROWS ? weighed : count / ROWS, i = 0;
    column col[TV];
#pragma GCC unroll 8
    for (int c = 0; c < TV; c++)
        col[c] = (column){w->scale[c], w->ref[c], vf_set(LOWEST), _mm512_setzero_si512()};
    for (; i < both; i++)
        score_tile(word + i * ROWS * words, start + i * ROWS, scale + i * ROWS, q, words, ROWS,
                   now->t + i * ROWS * LANES, col, before->t + i * ROWS * LANES,
                   w->p + i * (ROWS / 4) * LANES);
    for (int n = i; n < weighed; n++)
#pragma GCC unroll 8
        for (int item = 0; item < ITEMS; item++)
            weigh_item(col, before->t + n * ROWS * LANES, w->p + n * (ROWS / 4) * LANES, item);
    for (; i < tiles; i++)
        score_tile(word + i * ROWS * words, start + i * ROWS, scale + i * ROWS, q, words,
                   count - i * ROWS, now->t + i * ROWS * LANES, col, NULL, NULL);
    now->tiles = tiles;
#pragma GCC unroll 8
    for (int c = 0; c < TV; c++) {
        now->max[c] = col[c].max;
        w->total[c] = (vf)_mm512_cvtepi32_ps(col[c].sum);
    }
}

/* Columns of values, which are rows of the result, that lie and are worked on together: from column
 * r on. */
INLINE int strip(int dim, int r)
{
    return dim - r >= ROWS ? ROWS : dim - r >= 4 ? 4 : 1;
}

/* Rows of the result: o += factor * sum over the block of value * weight. */
INLINE void value_tile(int rows, const int32_t *v, const int32_t *p, int words, const vf *factor,
                       float *o)
{
    __m512i acc[ROWS][TV];
#pragma GCC unroll 8
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 8
        for (int c = 0; c < TV; c++) acc[r][c] = _mm512_setzero_si512();
    for (int i = 0; i < words; i++) {
        __m512i b[TV];
#pragma GCC unroll 8
        for (int c = 0; c < TV; c++) b[c] = _mm512_load_si512(p + i * LANES + c * VL);
#pragma GCC unroll 8
        for (int r = 0; r < rows; r++) {
            __m512i a = _mm512_set1_epi32(v[i * rows + r]);
#pragma GCC unroll 8
            for (int c = 0; c < TV; c++) DOT(acc[r][c], b[c], a);
        }
    }
#pragma GCC unroll 8
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 8
        for (int c = 0; c < TV; c++) {
            float *at = o + r * QB + c * VL;
            vf_store(at, vf_load(at) + (vf)_mm512_cvtepi32_ps(acc[r][c]) * factor[c]);
        }
}

static void value_block(const int32_t *v, const int32_t *p, int dim, int words, const vf *factor,
                        float *o)
{
    for (int r = 0, n; r < dim; r += n, v += n * words, o += n * QB) {
        n = strip(dim, r);
        switch (n) {
        case ROWS:
            value_tile(ROWS, v, p, words, factor, o);
            break;
        case 4:
            value_tile(4, v, p, words, factor, o);
            break;
        default:
            value_tile(1, v, p, words, factor, o);
            break;
        }
    }
}

/* ------------------------------------------------------------------ levels */

INLINE vf get(const void *p, graft_dtype t, int64_t at, int left)
{
    return left >= VL ? vf_get(p, t, (size_t)at) : vf_get_tail(p, t, (size_t)at, (size_t)left);
}

INLINE vf inverse_of(vf scale)
{
    __mmask16 some = _mm512_cmp_ps_mask((__m512)scale, _mm512_setzero_ps(), _CMP_GT_OQ);
    return (vf)_mm512_maskz_div_ps(some, _mm512_set1_ps(1.0f), (__m512)scale);
}

/* The mean of keys and the scales of values, over all keys of the head. */
static void survey(const graft_cpu_attention *a, const scratch *m)
{
    int dim = a->head_dim;
    for (int c = 0; c < dim; c += VL) {
        vf_store(m->mean + c, (vf){0});
        vf_store(m->v_scale + c, (vf){0});
    }
    for (int64_t r = 0; r < a->keys; r += 4)
        for (int c = 0; c < dim; c += VL) {
            vf sum = vf_load(m->mean + c), most = vf_load(m->v_scale + c);
            for (int64_t i = r; i < r + 4 && i < a->keys; i++) {
                sum += get(a->k, a->dtype, i * a->k_stride + c, dim - c);
                most = vf_max(most, vf_abs(get(a->v, a->dtype, i * a->v_stride + c, dim - c)));
            }
            vf_store(m->mean + c, sum);
            vf_store(m->v_scale + c, most);
        }
    for (int c = 0; c < dim; c += VL) {
        vf scale = vf_load(m->v_scale + c) * vf_set(1 / 127.0f);
        vf_store(m->mean + c, vf_load(m->mean + c) * vf_set(1 / (float)a->keys));
        vf_store(m->v_scale + c, scale);
        vf_store(m->v_inverse + c, inverse_of(scale));
    }
}

/* Four vectors of values of -127 … 127 to one of words of levels, the first one's in the lowest
 * bytes. */
INLINE __m512i join(const vf x[4])
{
    __m512i n[4];
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) n[i] = _mm512_cvtps_epi32((__m512)x[i]);
    return to_words(
        _mm512_packs_epi16(_mm512_packs_epi32(n[0], n[1]), _mm512_packs_epi32(n[2], n[3])));
}

/* VL rows of queries or keys, less what is to be taken off, to words of levels, each vector one
 * word of every row, `apart` words from the next. Rows from `rows` on are zero. Returns what levels
 * are worth. */
INLINE vf row_levels(const graft_cpu_attention *a, const scratch *m, const void *x, int64_t stride,
                     int64_t first, int64_t rows, const float *less, int32_t *out, int apart)
{
    int dim = a->head_dim;
    vf most = {0};
    for (int i = 0; i < dim; i += VL) {
        int left = dim - i < VL ? dim - i : VL;
        vf r[VL];
#pragma GCC unroll 16
        for (int k = 0; k < VL; k++)
            r[k] = k < rows ? get(x, a->dtype, (first + k) * stride + i, left) : (vf){0};
        vf_transpose(r);
#pragma GCC unroll 16
        for (int k = 0; k < VL; k++) {
            if (less) r[k] = r[k] - vf_set(less[i + k]);
            most = vf_max(most, vf_abs(r[k]));
            vf_store(m->column + (i + k) * VL, r[k]);
        }
    }
    vf scale = most * vf_set(1 / 127.0f), inverse = inverse_of(scale);
    for (int i = 0; i < dim; i += 4) {
        vf r[4];
#pragma GCC unroll 4
        for (int k = 0; k < 4; k++) r[k] = vf_load(m->column + (i + k) * VL) * inverse;
        _mm512_store_si512(out + i / 4 * apart, join(r));
    }
    return scale;
}

/* Keys from `first` on, to whole tiles. */
static void load_keys(const graft_cpu_attention *a, const scratch *m, int64_t first, int64_t rows)
{
    int words = (a->head_dim + 3) / 4;
    for (int64_t r = 0; r < rows; r += VL) {
        __m512i sum = _mm512_setzero_si512();
        int64_t left = rows - r, tiles = (left + ROWS - 1) / ROWS * ROWS;
        vf scale = row_levels(a, m, a->k, a->k_stride, first + r, left, m->mean, m->row, VL);
        for (int i = 0; i < words; i += VL) {
            __mmask16 wanted = (__mmask16)(words - i < VL ? (1 << (words - i)) - 1 : 0xffff);
            vf w[VL];
            for (int k = 0; k < VL; k++) {
                w[k] = i + k < words ? vf_load((const float *)m->row + (i + k) * VL) : (vf){0};
                DOT(sum, _mm512_set1_epi8((char)128), (__m512i)w[k]);
            }
            vf_transpose(w);
            for (int k = 0; k < VL && k < tiles; k++)
                _mm512_mask_storeu_ps((float *)m->k.word + (r + k) * words + i, wanted,
                                      (__m512)w[k]);
        }
        __mmask16 wanted = (__mmask16)(tiles < VL ? (1 << tiles) - 1 : 0xffff);
        _mm512_mask_storeu_ps(m->k.scale + r, wanted, (__m512)scale);
        _mm512_mask_storeu_epi32(m->k.start + r, wanted,
                                 _mm512_sub_epi32(_mm512_setzero_si512(), sum));
    }
}

/* Words of VL columns of four keys, of which there are `rows`. */
INLINE __m512i value_words(const graft_cpu_attention *a, const scratch *m, int64_t key, int rows,
                           int c)
{
    vf r[4];
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) {
        int64_t at = (key + i) * a->v_stride + c;
        r[i] = i < rows ? get(a->v, a->dtype, at, a->head_dim - c) * vf_load(m->v_inverse + c)
                        : (vf){0};
    }
    return join(r);
}

/* A block of values as words along the keys, strip by strip. */
static void load_values(const graft_cpu_attention *a, const scratch *m, int64_t first, int rows,
                        int words, int32_t *out)
{
    int32_t w[VL] __attribute__((aligned(64)));
    for (int i = 0; i < words; i++)
        for (int c = 0; c < a->head_dim; c += VL) {
            int n, left = a->head_dim - c < VL ? a->head_dim - c : VL;
            _mm512_store_si512(w, value_words(a, m, first + 4 * i, rows - 4 * i, c));
            for (int r = 0; r < left; r += n) {
                n = strip(a->head_dim, c + r);
                memcpy(out + (c + r) * words + i * n, w + r, 4 * (size_t)n);
            }
        }
}

/* One panel of queries, with 128 added; lanes beyond the last query are zero. */
static void load_queries(const graft_cpu_attention *a, const scratch *m, int64_t first, int n,
                         int32_t *q, float *scale)
{
    int words = (a->head_dim + 3) / 4;
    float factor = (float)((double)a->scale * LOG2E);
    for (int j = 0; j < QB; j += VL) {
        vf worth = row_levels(a, m, a->q, a->q_stride, first + j, n - j, NULL, q + j, QB);
        vf_store(scale + j, vf_max(worth * vf_set(factor), vf_set(LEAST)));
        for (int i = 0; i < words; i++)
            vf_store((float *)q + i * QB + j,
                     (vf)((vi)vf_load((const float *)q + i * QB + j) ^ (int32_t)0x80808080));
    }
}

/* ------------------------------------------------------------------ panels */

/* What LANES queries of a panel have. */
typedef struct half {
    const int32_t *q;
    const float *scale;
    float *o, *total, *ref;
} half;

/* References to LIMIT above the largest scores of this block where they are below it, so that
 * blocks that follow do not exceed them; the results follow. */
static void raise(const half *h, const vf *most, int dim)
{
    for (int c = 0; c < TV; c++) {
        vf ref = vf_load(h->ref + c * VL), next = most[c] + vf_set(LIMIT);
        __mmask16 over = _mm512_cmp_ps_mask((__m512)most[c], (__m512)ref, _CMP_GT_OQ);
        next = (vf)_mm512_mask_mov_ps((__m512)ref, over, (__m512)next);
        vf decay = vf_exp2_neg(ref - next);
        vf_store(h->ref + c * VL, next);
        vf_store(h->total + c * VL, vf_load(h->total + c * VL) * decay);
        for (int i = 0; i < dim; i++) {
            float *o = h->o + i * QB + c * VL;
            vf_store(o, vf_load(o) * decay);
        }
    }
}

/* Takes the largest scores off. A product is rounded in proportion to itself: of steep scores no
 * weight would be left, or all of them. */
__attribute__((noinline)) static void level_off(weigher *w, const scores *s)
{
    for (int r = 0; r < s->tiles * ROWS; r++)
        for (int c = 0; c < TV; c++) {
            float *t = s->t + r * LANES + c * VL;
            vf_store(t, vf_load(t) - s->max[c]);
        }
    for (int c = 0; c < TV; c++) w->ref[c] = vf_set(LARGEST);
}

/* Makes ready to weigh a block's scores; factor: what its weights are worth in the results. */
static void open_block(weigher *w, const half *h, const scores *s, int dim, vf *factor)
{
    vf most[TV];
    __mmask16 over = 0, steep = 0;
    for (int c = 0; c < TV; c++) {
        w->scale[c] = vf_load(h->scale + c * VL);
        most[c] = s->max[c] * w->scale[c];
        w->ref[c] = vf_set(LARGEST) - most[c];
        over |= _mm512_cmp_ps_mask((__m512)most[c], (__m512)vf_load(h->ref + c * VL), _CMP_GT_OQ);
        steep |= _mm512_cmp_ps_mask((__m512)vf_abs(most[c]), (__m512)vf_set(STEEP), _CMP_GT_OQ);
    }
    if (over) raise(h, most, dim);
    if (steep) level_off(w, s);
    for (int c = 0; c < TV; c++) factor[c] = vf_exp2_neg(most[c] - vf_load(h->ref + c * VL));
}

/* LANES queries on `count` keys, whose words are in the scratch. */
static void attend(const scratch *m, const half *h, int count, int dim)
{
    int words = (dim + 3) / 4;
    weigher w = {.p = m->p};
    scores s[2] = {{.t = m->score[0]}, {.t = m->score[1]}};
    score_block(&m->k, 0, count < KB ? count : KB, h->q, words, &s[0], &w, NULL);
    for (int key = 0, n = 0; key < count; key += KB, n ^= 1) {
        int left = count - key - KB, next = left < 0 ? 0 : left;
        vf factor[TV];
        if (next > KB) next = KB;
        open_block(&w, h, &s[n], dim, factor);
        score_block(&m->k, key + KB, next, h->q, words, &s[n ^ 1], &w, &s[n]);
        value_block(m->v + (size_t)key / 4 * (size_t)dim, w.p, dim, s[n].tiles * ROWS / 4, factor,
                    h->o);
        for (int c = 0; c < TV; c++)
            vf_store(h->total + c * VL, vf_load(h->total + c * VL) + w.total[c] * factor[c]);
    }
}

/* Keys whose words are made at a time. */
static int64_t section(int32_t head_dim, int64_t keys)
{
    int64_t n = SECTION / (2 * (int64_t)head_dim) / KB * KB;
    return keys <= n ? (keys + ROWS - 1) / ROWS * ROWS : n < KB ? KB : n;
}

int32_t SIMD(attention_int8_group)(int32_t head_dim, int64_t keys)
{
    int64_t n = keys <= section(head_dim, keys) ? 64 : STATE / (QB * 5 * (int64_t)head_dim);
    return n < 1 ? 1 : n > 64 ? 64 : (int32_t)n;
}

static size_t lay_out(int32_t head_dim, int64_t keys, int32_t panels, char *at, scratch *m)
{
    size_t d = (size_t)head_dim, words = (d + 3) / 4, n = (size_t)section(head_dim, keys);
    size_t states = (size_t)keys <= n ? 1 : (size_t)panels, wide = (d + VL - 1) / VL * VL;
    const char *start = at;
    m->k.word = (int32_t *)attention_carve(&at, n * words);
    m->k.start = (int32_t *)attention_carve(&at, n);
    m->k.scale = attention_carve(&at, n);
    m->v = (int32_t *)attention_carve(&at, n / 4 * d);
    m->p = (int32_t *)attention_carve(&at, KB / 4 * LANES);
    m->mean = attention_carve(&at, wide);
    m->v_scale = attention_carve(&at, wide);
    m->v_inverse = attention_carve(&at, wide);
    m->column = attention_carve(&at, VL * wide);
    m->row = (int32_t *)attention_carve(&at, VL * wide / 4);
    for (int i = 0; i < 2; i++) m->score[i] = attention_carve(&at, KB * LANES);
    m->q = (int32_t *)attention_carve(&at, states * QB * words);
    m->o = attention_carve(&at, states * QB * d);
    m->total = attention_carve(&at, states * QB);
    m->ref = attention_carve(&at, states * QB);
    m->q_scale = attention_carve(&at, states * QB);
    return (size_t)(at - start);
}

size_t SIMD(attention_int8_scratch)(int32_t head_dim, int64_t keys, int32_t panels)
{
    scratch m;
    return lay_out(head_dim, keys, panels, NULL, &m);
}

/* The panel's results, with what a value's level is worth. Their sums go first: both may be as
 * small as 2^-LIMIT. */
static void store(const graft_cpu_attention *a, const scratch *m, int64_t query, int n, float *o,
                  float *total)
{
    for (int j = 0; j < QB; j += VL) {
        vf inverse = 1.0f / vf_load(total + j);
        for (int i = 0; i < a->head_dim; i++) {
            vf x = vf_load(o + i * QB + j) * inverse;
            vf_store(o + i * QB + j, x * vf_set(m->v_scale[i]));
        }
        vf_store(total + j, vf_set(1.0f));
    }
    attention_store(a, query, n, o, total);
}

void SIMD(attention_int8)(const graft_cpu_attention *a, int64_t queries, int64_t first,
                          int32_t panels, void *memory)
{
    size_t d = (size_t)a->head_dim, words = (d + 3) / 4;
    int64_t step = section(a->head_dim, a->keys);
    scratch m;
    lay_out(a->head_dim, a->keys, panels, memory, &m);
    survey(a, &m);
    for (int64_t key = 0; key < a->keys; key += step) {
        int64_t count = a->keys - key < step ? a->keys - key : step;
        load_keys(a, &m, key, count);
        for (int64_t r = 0; r < count; r += KB) {
            int rows = count - r < KB ? (int)(count - r) : KB;
            load_values(a, &m, key + r, rows, (rows + ROWS - 1) / ROWS * (ROWS / 4),
                        m.v + (size_t)r / 4 * d);
        }
        for (int p = 0; p < panels; p++) {
            size_t state = a->keys <= step ? 0 : (size_t)p * QB;
            int64_t query = (first + p) * QB, left = queries - query;
            int32_t *q = m.q + state * words;
            float *o = m.o + state * d, *total = m.total + state, *scale = m.q_scale + state;
            if (left <= 0) break;
            if (left > QB) left = QB;
            if (key == 0) {
                load_queries(a, &m, query, (int)left, q, scale);
                memset(o, 0, QB * d * sizeof(float));
                memset(total, 0, QB * sizeof(float));
                for (int i = 0; i < QB; i++) m.ref[state + (size_t)i] = 2 * LOWEST;
            }
            for (int j = 0; j < QB && j < left; j += LANES) {
                const half h = {q + j, scale + j, o + j, total + j, m.ref + state + j};
                attend(&m, &h, (int)count, a->head_dim);
            }
            if (key + count == a->keys) store(a, &m, query, (int)left, o, total);
        }
    }
}
#endif
