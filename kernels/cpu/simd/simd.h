/* The arithmetic that depends on the instruction set: one table of functions per instruction set,
 * compiled from the same sources (CMakeLists.txt) and chosen when a device is made.
 *
 * Every function works on one contiguous row and on one thread; [any] unless said otherwise. Rows
 * are float32 or bfloat16 (GRAFT_F32, GRAFT_BF16), arithmetic is float32. Transcendental functions
 * are within about 1e-7 of the exact value, relative to the size of the result's operands. */
#ifndef GRAFT_KERNELS_CPU_SIMD_H
#define GRAFT_KERNELS_CPU_SIMD_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "kernels/blocks.h"
#include "kernels/op_desc.h"

/* One head of one picture: rows of `head_dim` elements at the given strides. */
typedef struct graft_cpu_attention {
    const void *q, *k, *v;
    void *out;
    int64_t q_stride, k_stride, v_stride, out_stride; /* elements from one token to the next */
    int64_t keys;
    int32_t head_dim, causal;
    float scale;
    graft_dtype dtype;   /* of q, k, v and out */
    const float *bias;   /* added to the scores, a row for each query; NULL: none */
    int64_t bias_stride; /* from one query to the next */
    float cap;           /* what scores approach before the bias is added; 0: they do not */
} graft_cpu_attention;

/* How Winograd's F(down x across, 3x3) is cut into pieces; floats. A tile has down x across
 * outputs; its pixels, which are as many once they are transformed, and the products of these are
 * counted below. With doubled pixels it begins at an even row and column, which see a pixel of
 * padding or of another tile before them. */
typedef struct graft_cpu_winograd {
    int32_t down, across; /* 4x4, 6x6, 8x4 or 8x8 */
    int32_t doubled;      /* 1: each pixel is there twice, down and across; 8x8 alone */
    int32_t zero;
    int64_t inputs;         /* channels of a pixel, a multiple of 16 */
    int64_t chunk;          /* of them worked on at a time, a multiple of 16 that divides them */
    int64_t outputs;        /* channels worked on at a time, a multiple of 16 */
    int64_t chunk_stride;   /* transformed pixels: from one chunk to the next */
    int64_t pixel_stride;   /* from one pixel to the next */
    int64_t weights_stride; /* transformed weights: from one product to the next */
    int64_t sums_stride;    /* sums: likewise */
} graft_cpu_winograd;

/* Of a side of `tile` outputs. */
static inline int32_t graft_cpu_winograd_pixels(const graft_cpu_winograd *s, int32_t tile)
{
    return s->doubled ? tile / 2 + 2 : tile + 2;
}
static inline int32_t graft_cpu_winograd_products(const graft_cpu_winograd *s, int32_t tile)
{
    return s->doubled ? tile + 1 : tile + 2;
}
/* The transformed pixel, along a side, that a product is of. Of doubled pixels the first two and
 * the last have one product each, the others two. */
static inline int32_t graft_cpu_winograd_pixel_of(const graft_cpu_winograd *s, int32_t product)
{
    return s->doubled ? (product + 2) / 2 - (product == 0) : product;
}

/* Where the outputs of a tile go, and what is left to do on them. Strides are elements. */
typedef struct graft_cpu_winograd_place {
    void *y;              /* the first pixel's first channel */
    const void *residual; /* likewise, added; or NULL */
    graft_dtype dtype, residual_dtype;
    int64_t row, column; /* of y: to the pixel below, to the one beside */
    int64_t residual_row, residual_column;
    int32_t rows, columns; /* pixels of the tile that are in the picture */
    graft_act act;         /* comes last */
    bool stream; /* write past the caches: y and its strides are whole lines of 64 bytes; drain()
                  * comes before another thread is told of them */
} graft_cpu_winograd_place;

/* int8 LINEAR on rows of levels, as int8_levels() writes them. Weights lie in panels of outputs:
 * for every four inputs, four levels of each output. With GEGLU the first half of a panel is of
 * values, the second of gates. */
#define GRAFT_CPU_INT8_PANEL 32
#define GRAFT_CPU_INT8_ROWS  12 /* worked on together */
/* With matrix instructions, for which quads are a multiple of 16. */
#define GRAFT_CPU_INT8_TILE_ROWS 32
typedef struct graft_cpu_int8 {
    const uint8_t *level;   /* up to a multiple of the rows above are read */
    int64_t rows, stride;   /* bytes from one row of levels to the next */
    int64_t quads;          /* fours of inputs */
    const float *row_scale; /* one a row */
    const int8_t *weight;   /* panels, aligned to 64 bytes */
    const int32_t *start;   /* likewise, -128 * the sum of the weights: what sums begin with where
                             * levels have 128 added */
    const float *scale, *bias; /* one an output in its own order; bias may be NULL */
    int64_t outputs;           /* of the weights: twice the results with GEGLU */
    graft_act act;
    void *const *out; /* one a row */
    graft_dtype out_type;
    const void *const *residual; /* one a row; NULL: none */
    graft_dtype residual_type;
    const char *ahead; /* what is read next: fetched meanwhile; NULL: nothing */
    int64_t ahead_bytes;
} graft_cpu_int8;

/* LINEAR in float32 or bfloat16, whose weights come in words of four bytes: one float32, or two
 * bfloat16. They lie in blocks of outputs: for every word, one of each output of the block. Rows
 * come in such words, too, but in float32 where product_bf16 is false: then two words for every
 * word of the weights. A panel is a block of results: one block of weights, or with GEGLU two, that
 * of the values and that of their gates. */
#define GRAFT_CPU_PRODUCT_BLOCK 16
#define GRAFT_CPU_PRODUCT_ROWS  12 /* at most, worked on together */
typedef struct graft_cpu_product {
    graft_dtype dtype; /* of weights */
    const float *x;
    int64_t rows, stride; /* words from one row of x to the next */
    /* The rows beyond the last multiple of GRAFT_CPU_PRODUCT_ROWS once more, of which so many are
     * read, words apart. */
    const float *rest;
    int64_t rest_stride;
    int64_t words;        /* of an output's weights */
    const float *weight;  /* aligned to 64 bytes */
    int64_t block_stride; /* words from one block to the next */
    const float *bias;    /* one an output in its own order, or NULL */
    int64_t outputs; /* of the weights: twice the results with GEGLU; these fill whole blocks */
    graft_act act;
    void *const *out; /* one a row */
    graft_dtype out_type;
    const void *const *residual; /* one a row; NULL: none */
    graft_dtype residual_type;
    const char *ahead; /* what is read next: fetched meanwhile; NULL: nothing */
    int64_t ahead_bytes;
    /* graft_cpu_product_tiles()' alone, see there; else 0. */
    int64_t tile, chunk, taps;
    const int64_t *tap;
    const float *scale, *row_scale;
    float *sums; /* of graft_cpu_product_tiles_sums() */
} graft_cpu_product;

typedef struct graft_cpu_simd {
    const char *name; /* "avx512_bf16" */

    /* y = act(x); ACT_NONE converts between the two dtypes. y may be x when the dtypes are equal.
     */
    void (*act)(graft_act act, const void *x, graft_dtype xt, void *y, graft_dtype yt, size_t n);
    /* y = x * scale + shift */
    void (*scale)(const void *x, graft_dtype xt, void *y, graft_dtype yt, size_t n, float scale,
                  float shift);
    /* y = a + b, y = a * b */
    void (*add)(const void *a, graft_dtype at, const void *b, graft_dtype bt, void *y,
                graft_dtype yt, size_t n);
    void (*mul)(const void *a, graft_dtype at, const void *b, graft_dtype bt, void *y,
                graft_dtype yt, size_t n);
    /* y = residual + a * b. y may be a or residual when the dtypes are equal. */
    void (*gate)(const void *a, graft_dtype at, const float *b, const void *residual,
                 graft_dtype rt, void *y, graft_dtype yt, size_t n);
    /* y = x where x > 0, x * slope elsewhere */
    void (*prelu)(const void *x, graft_dtype xt, const float *slope, void *y, graft_dtype yt,
                  size_t n);
    /* y = a * gelu(b) */
    void (*geglu)(const void *a, const void *b, graft_dtype xt, void *y, graft_dtype yt, size_t n);
    /* y = act(x + channel[i] + residual[i]); channel is float32 and may be NULL, residual too. */
    void (*epilogue)(graft_act act, void *y, graft_dtype yt, const float *channel,
                     const void *residual, graft_dtype rt, size_t n);

    /* (x - mean) / sqrt(var + eps) * gamma + beta over one row. */
    void (*layer_norm)(const void *x, graft_dtype xt, const float *gamma, const float *beta,
                       void *y, graft_dtype yt, size_t n, float eps);
    /* Each of `heads` neighbouring parts of n elements by itself: x / sqrt(mean of x^2 + eps) *
     * gamma, of which there are n. y may be x when the dtypes are equal. */
    void (*rms_norm)(const void *x, graft_dtype xt, const float *gamma, void *y, graft_dtype yt,
                     size_t heads, size_t n, float eps);
    /* Of each of `heads` neighbouring parts the first `still` elements as they are, and behind them
     * n, n even: y[i] = x[i] cosine[i] + x[i ^ 1] sine[i]; then `last` more as they are. y may be x
     * when the dtypes are equal. */
    void (*turn)(const void *x, graft_dtype xt, const float *cosine, const float *sine, void *y,
                 graft_dtype yt, size_t heads, size_t still, size_t n, size_t last);
    /* Per channel, over `pixels` rows at `stride` elements: adds the sums of (x - shift[c]) and of
     * its square to sum[c] and square[c]. partial: 2 * channels floats of scratch. */
    void (*channel_sums)(const void *x, graft_dtype xt, int64_t pixels, int64_t stride,
                         int64_t channels, const float *shift, double *sum, double *square,
                         float *partial);
    /* y = act((x - mean[c]) * factor[c] + beta[c]) over `pixels` rows. */
    void (*channel_affine)(graft_act act, const void *x, graft_dtype xt, int64_t x_stride, void *y,
                           graft_dtype yt, int64_t y_stride, int64_t pixels, int64_t channels,
                           const float *mean, const float *factor, const float *beta);

    /* Sum of x; lanes in float32 and joined in double. */
    double (*sum)(const void *x, graft_dtype xt, size_t n);
    /* Per channel, over at most 64 `pixels` at `stride` elements, the sums of x, x * cosines[p] and
     * x * sines[p]: three rows of `channels`. */
    void (*wave_sums)(const void *x, graft_dtype xt, int64_t pixels, int64_t stride,
                      int64_t channels, const float *cosines, const float *sines, float *sum);
    /* y = x + wave[0] + cosines[p] * wave[1] + sines[p] * wave[2], three rows of `channels`. y may
     * be x when dtypes and strides are equal. */
    void (*wave_add)(const void *x, graft_dtype xt, int64_t x_stride, void *y, graft_dtype yt,
                     int64_t y_stride, int64_t pixels, int64_t channels, const float *cosines,
                     const float *sines, const float *wave);

    /* The largest x * factor, if it is above *best, and its place, `first` for the first one; the
     * first of equals. What is no number is none of them. n is a multiple of 16. */
    void (*peak)(const float *x, const float *factor, size_t n, int32_t first, float *best,
                 int32_t *at);

    /* max |x| */
    float (*absmax)(const void *x, graft_dtype xt, size_t n);
    /* y = x * inverse, rounded to the nearest whole number from -127 to 127 */
    void (*to_s8)(const void *x, graft_dtype xt, float inverse, int8_t *y, size_t n);
    /* y = x, each `group` values by themselves times the Hadamard matrix (kernels/hadamard.h); n is
     * a multiple of group. */
    void (*hadamard)(const void *x, graft_dtype xt, size_t group, float *y, size_t n);
    /* Values first .. first + n of a row (kernels/blocks.h). */
    void (*blocks)(const graft_blocks_weight *w, int64_t row, int64_t first, int64_t n, float *y);
    /* A row of int32 in place to float32: x * scale[i] * factor + bias[i]; bias may be NULL. */
    void (*from_s32)(void *row, const float *scale, float factor, const float *bias, size_t n);

    /* As to_s8, with 128 added where int8_multiply() takes them so: with VNNI's instructions, not
     * with AVX2's. NULL where int8_multiply() is. */
    void (*int8_levels)(const void *x, graft_dtype xt, float inverse, uint8_t *y, size_t n);
    /* Results of all rows for so many panels, with all that follows the products. NULL: no such
     * instructions. */
    void (*int8_multiply)(const graft_cpu_int8 *job, int64_t first, int64_t panels);

    /* Results of all rows for so many panels from `first` on. Every sum is over the inputs in their
     * order. NULL: the library's own product is better. */
    void (*product)(const graft_cpu_product *job, int64_t first, int64_t panels);
    bool product_bf16; /* product() multiplies bfloat16, rows of which it takes */

    /* n values of float16 or float32 at any address to bfloat16, rounded as base/half.h does. */
    void (*narrow)(const void *x, graft_dtype xt, uint16_t *y, size_t n);
    /* Rows of `taps` values: values of rows 2i and 2i + 1 side by side, y[i * taps + t]. */
    void (*pair)(const uint16_t *x, uint32_t *y, size_t pairs, size_t taps);
    /* The same of four rows of bytes: y[i * taps + t] has those of rows 4i to 4i + 3. */
    void (*quad)(const int8_t *x, uint32_t *y, size_t quads, size_t taps);
    int32_t (*sum_s8)(const int8_t *x, size_t n);
    /* Unit k (four bytes) of 8 or 16 rows, `stride` bytes apart, becomes the line of 32 or 64 bytes
     * at y + at[k], for k below n; `apart`, for 16 rows: first the lower halves of the units, then
     * the upper ones. Lines are aligned to their size, rows to nothing. They may go past the
     * caches: drain() comes before another thread is told of them. */
    void (*lines)(const void *x, size_t stride, size_t rows, bool apart, size_t n,
                  const int64_t *at, void *y);
    void (*drain)(void);

    /* The pixels of one tile (NULL: zero; doubled ones once), each a row of channels, to as many
     * transformed ones. */
    void (*winograd_input)(const void *const *pixel, graft_dtype t, const graft_cpu_winograd *s,
                           float *v);
    /* 16 inputs by 16 outputs of weights, [tap][input][output], to u[product][input][output]: rows
     * of `outputs` floats. */
    void (*winograd_weights)(const void *w, graft_dtype t, const graft_cpu_winograd *s, float *u);
    /* One product: m[tile][output] = (add ? m : 0) + v[tile][input] * u[input][output] over one
     * chunk of inputs. */
    void (*winograd_multiply)(const float *v, const float *u, const graft_cpu_winograd *s,
                              int64_t tiles, bool add, float *m);
    /* The sums of a tile's products to its outputs; bias: `outputs` floats. */
    void (*winograd_output)(const float *m, const graft_cpu_winograd *s, const float *bias,
                            const graft_cpu_winograd_place *p);

    /* Queries are worked on in panels of this many. With a bias, `dtype` below is float32, since
     * that is what it is computed in, and causal is 0. */
    int32_t attention_panel;
    /* How many panels of a head are best worked on in one call. */
    int32_t (*attention_group)(graft_dtype dtype, int32_t head_dim, int64_t keys);
    /* Bytes of scratch for attention() of up to `panels` panels on so many keys. */
    size_t (*attention_scratch)(graft_dtype dtype, int32_t head_dim, int64_t keys, int32_t panels);
    /* Panels first .. first + panels - 1 of the `queries` rows of one head. `scratch` is aligned to
     * 64 bytes and used by no other call meanwhile. */
    void (*attention)(const graft_cpu_attention *a, int64_t queries, int64_t first, int32_t panels,
                      void *scratch);
    /* The same in integers (kernels/quant.h), for a scale above 0 and all keys: causal and bias are
     * not looked at. Panels are as large. NULL: no such instructions. */
    int32_t (*attention_int8_group)(int32_t head_dim, int64_t keys);
    size_t (*attention_int8_scratch)(int32_t head_dim, int64_t keys, int32_t panels);
    void (*attention_int8)(const graft_cpu_attention *a, int64_t queries, int64_t first,
                           int32_t panels, void *scratch);
} graft_cpu_simd;

/* The best table for this machine, or the one named `wanted` (NULL or empty: the best) if it runs
 * here, else the plain one. */
const graft_cpu_simd *graft_cpu_simd_best(const char *wanted);
/* product() of bfloat16 with AMX's matrix instructions, likewise; sums are rounded in another
 * order. Words of a row are a multiple of 16 and lie in chunks of so many: those of the rows of a
 * tile, GRAFT_CPU_PRODUCT_TILE_ROWS of them, after each other. From a tile's to the next tile's are
 * job->tile words, from a chunk to the row's next one job->chunk. Rows beyond job->rows are read to
 * the end of their tile and mean nothing; `stride` and `rest` are not looked at.
 *
 * A row is what x has at each of `taps` distances (job->tap, words) from where the row begins:
 * `words` there. LINEAR has one, 0; a convolution has one for each weight of a filter. Weights of
 * a block lie in the order of a chunk of the first tap, of the second, ..., the next chunk of the
 * first one. Results of a row whose job->out is NULL are left out.
 *
 * With dtype GRAFT_I8 x and weights are signed levels, four to a word; sums are exact, and times
 * job->scale of their output and job->row_scale of their row before the bias is added. */
#define GRAFT_CPU_PRODUCT_TILE_ROWS    32
#define GRAFT_CPU_PRODUCT_TILE_COLUMNS 8    /* of 32 outputs, multiplied with rows in turn */
#define GRAFT_CPU_PRODUCT_TILE_WORDS   1024 /* of a row, multiplied at once at most */
#define GRAFT_CPU_PRODUCT_TILE_TAPPED  2048 /* likewise with several taps, of all of them */
void graft_cpu_product_tiles(const graft_cpu_product *job, int64_t first, int64_t panels);
/* A row of bytes to its chunks, `chunk` bytes apart, with zeros to the end of the last. */
static inline void graft_cpu_product_tiles_row(const void *x, int64_t bytes, int64_t chunk,
                                               void *to)
{
    const char *from = (const char *)x;
    char *at = (char *)to;
    for (; bytes >= 64; bytes -= 64, from += 64, at += chunk) memcpy(at, from, 64);
    if (bytes <= 0) return;
    memcpy(at, from, (size_t)bytes);
    memset(at + bytes, 0, (size_t)(64 - bytes));
}
/* Words of a tap that are multiplied at once: a multiple of 16. */
static inline int64_t graft_cpu_product_tiles_part(int64_t words, int64_t taps)
{
    const int64_t all = taps > 1 ? GRAFT_CPU_PRODUCT_TILE_TAPPED : GRAFT_CPU_PRODUCT_TILE_WORDS;
    const int64_t most = all / taps / 16 * 16;
    const int64_t parts = most > 0 ? (words + most - 1) / most : words / 16;
    return ((words + parts - 1) / parts + 15) / 16 * 16;
}
/* Floats that job->sums has to have for so many rows of so many words. */
static inline int64_t graft_cpu_product_tiles_sums(int64_t rows, int64_t words, int64_t taps)
{
    const int64_t tiles = (rows + GRAFT_CPU_PRODUCT_TILE_ROWS - 1) / GRAFT_CPU_PRODUCT_TILE_ROWS;
    return graft_cpu_product_tiles_part(words, taps) < words
               ? tiles * GRAFT_CPU_PRODUCT_TILE_COLUMNS * GRAFT_CPU_PRODUCT_TILE_ROWS * 32
               : 0;
}
/* int8_multiply() with AMX's matrix instructions, where GRAFT_CPU_TILES says that it was compiled
 * and graft_cpu_tiles_allowed() that it may run: the same bits. */
void graft_cpu_int8_tiles(const graft_cpu_int8 *job, int64_t first, int64_t panels);
/* attention() with them, for bfloat16, a scale above 0 and all keys: causal and bias are not looked
 * at. Panels are of GRAFT_CPU_ATTENTION_TILE_ROWS queries. */
#define GRAFT_CPU_ATTENTION_TILE_ROWS 32
int32_t graft_cpu_attention_tiles_group(int32_t head_dim);
size_t graft_cpu_attention_tiles_scratch(int32_t head_dim, int64_t keys, int32_t panels);
void graft_cpu_attention_tiles(const graft_cpu_attention *a, int64_t queries, int64_t first,
                               int32_t panels, void *scratch);
/* Asks the system for the registers that these need, for all threads; false: there are none. */
bool graft_cpu_tiles_allowed(void);
/* What this processor has, for people: "AVX-512, VNNI, BF16". */
const char *graft_cpu_simd_features(void);
#endif
