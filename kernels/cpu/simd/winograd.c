/* The four steps of Winograd's F(4x4, 3x3), F(6x6, 3x3), F(8x4, 3x3) and F(8x8, 3x3) on vectors of
 * channels (Lavin and Gray 2015, section 4; Barabasz et al. 2020 for the choice of points). Of the
 * products of a direct convolution they leave 0.25, 0.2, 0.21 and 0.17.
 *
 * Polynomials are evaluated at 0, at points and their negatives, and at infinity. Rounding errors
 * as a part of the result, root mean squares for 256 inputs: 6e-7, 3e-6, 3e-6 and 1.6e-5; of direct
 * sums in order 1e-6. They are that small because each chunk of inputs has a sum of its own, and
 * for these points; F(4x4) at the usual 1 and 2 would have twice the error.
 *
 * Of a picture whose pixels were doubled, a filter g of three sees each pixel twice: results at
 * even places are of the two taps (g0, g1 + g2) on it, those at odd places of (g0 + g1, g2). Both
 * are F(4, 2) here, on 5 of 6 pixels, at 4 points that they share, so that pixels are transformed
 * once, and at 0 and infinity. At the point 1 both filters have the same value, and one product
 * does for both. So 8x8 results take 81 products, 0.14 of the direct ones, and few points make the
 * error 7e-7. */
#include "kernels/cpu/simd/functions.h"

#define MOST  8  /* outputs a side */
#define SIDE  10 /* inputs a side then */
#define PAIRS 4  /* of points then */
#define BLOCK 16 /* channels of a block of weights */

/* A side of a tile, as the functions below take it: its outputs, and whether pixels are doubled. */
#define DOUBLED        16
#define OUTPUTS(tile)  ((tile) % DOUBLED)
#define PIXELS(tile)   ((tile) < DOUBLED ? (tile) + 2 : OUTPUTS(tile) / 2 + 2)
#define PRODUCTS(tile) ((tile) < DOUBLED ? (tile) + 2 : OUTPUTS(tile) + 1)

/* Points x and -x, half as many pairs as a tile has outputs. With t = x^2: */
typedef struct points {
    float x[PAIRS];
    float all[PAIRS + 1];       /* the product of (t - y^2) over all y: from the constant on */
    float others[PAIRS][PAIRS]; /* likewise without the point's own */
    float scale[PAIRS];         /* the value of that at the point, times 2 * t */
} points;

#define TWO(a, b)      (a) * (b), -(a) - (b), 1
#define THREE(a, b, c) -(a) * (b) * (c), (a) * (b) + (a) * (c) + (b) * (c), -(a) - (b) - (c), 1
#define FOUR(a, b, c, d)                                                                           \
    (a) * (b) * (c) * (d), -(a) * (b) * ((c) + (d)) - ((a) + (b)) * (c) * (d),                     \
        (a) * (b) + (c) * (d) + ((a) + (b)) * ((c) + (d)), -(a) - (b) - (c) - (d), 1
#define AT2(a, b)       2 * (a) * ((a) - (b))
#define AT3(a, b, c)    2 * (a) * ((a) - (b)) * ((a) - (c))
#define AT4(a, b, c, d) 2 * (a) * ((a) - (b)) * ((a) - (c)) * ((a) - (d))

#define A (4.0f / 9) /* squares of F(4x4)'s 2/3 and 3/2 */
#define B (9.0f / 4)
#define C (16.0f / 81) /* of F(8x8)'s 4/9, 4/5, 5/4 and 9/4 */
#define D (16.0f / 25)
#define E (25.0f / 16)
#define F (81.0f / 16)

static const points points4 = {
    {2.0f / 3, 3.0f / 2}, {TWO(A, B)}, {{-B, 1}, {-A, 1}}, {AT2(A, B), AT2(B, A)}};
static const points points6 = {{0.5f, 1, 2},
                               {THREE(0.25f, 1, 4)},
                               {{TWO(1, 4)}, {TWO(0.25f, 4)}, {TWO(0.25f, 1)}},
                               {AT3(0.25f, 1, 4), AT3(1, 0.25f, 4), AT3(4, 0.25f, 1)}};
static const points points8 = {
    {4.0f / 9, 4.0f / 5, 5.0f / 4, 9.0f / 4},
    {FOUR(C, D, E, F)},
    {{THREE(D, E, F)}, {THREE(C, E, F)}, {THREE(C, D, F)}, {THREE(C, D, E)}},
    {AT4(C, D, E, F), AT4(D, C, E, F), AT4(E, C, D, F), AT4(F, C, D, E)}};

/* F(4, 2)'s for doubled pixels, the first of which is 1: polynomials in x itself. */
enum { SHARED = 4 };
static const struct {
    float x[SHARED], all[SHARED + 1], others[SHARED][SHARED], scale[SHARED];
} points_doubled = {{1, 2, -2, -0.5f},
                    {2, 2, -4.5f, -0.5f, 1},
                    {{-2, -4, 0.5f, 1}, {-1, -1.5f, 1.5f, 1}, {1, 0.5f, -2.5f, 1}, {4, -4, -1, 1}},
                    {-4.5f, 10, -18, 5.625f}};

/* Known to the compiler wherever the tile is. */
INLINE const points *points_of(const int tile)
{
    return tile == 4 ? &points4 : tile == 6 ? &points6 : &points8;
}

/* A point's place and its negative's. */
INLINE void put_both(vf *t, size_t stride, vf even, vf odd)
{
    t[0] = even + odd;
    t[stride] = even - odd;
}

/* The polynomial of `count` coefficients. */
INLINE vf polynomial(const vf *d, size_t stride, const float *coefficient, const int count)
{
    vf sum = d[0] * coefficient[0];
#pragma GCC unroll 8
    for (int k = 1; k < count; k++) sum += d[(size_t)k * stride] * coefficient[k];
    return sum;
}

/* B^T d for one line of doubled pixels, each given once. */
INLINE void input_line_doubled(const vf *d, size_t stride, vf *t, size_t t_stride)
{
    t[0] = polynomial(d, stride, points_doubled.all, SHARED + 1);
#pragma GCC unroll 8
    for (size_t i = 0; i < SHARED; i++)
        t[(i + 1) * t_stride] = polynomial(d + stride, stride, points_doubled.others[i], SHARED);
    t[(SHARED + 1) * t_stride] = polynomial(d + stride, stride, points_doubled.all, SHARED + 1);
}

/* B^T d for one line. */
INLINE void input_line(const vf *d, size_t stride, vf *t, size_t t_stride, const int tile)
{
    const points *p = points_of(tile);
    const int pairs = tile / 2;
    if (tile >= DOUBLED) {
        input_line_doubled(d, stride, t, t_stride);
        return;
    }
    t[0] = polynomial(d, 2 * stride, p->all, pairs + 1);
#pragma GCC unroll 8
    for (int i = 0; i < pairs; i++) {
        vf even = polynomial(d + 2 * stride, 2 * stride, p->others[i], pairs);
        vf odd = polynomial(d + stride, 2 * stride, p->others[i], pairs) * p->x[i];
        put_both(t + (size_t)(2 * i + 1) * t_stride, t_stride, even, odd);
    }
    t[(size_t)(tile + 1) * t_stride] = polynomial(d + stride, 2 * stride, p->all, pairs + 1);
}

/* G g for doubled pixels: at 0, at 1, at the other points for even and for odd places, at infinity.
 */
INLINE void weight_line_doubled(const vf *g, size_t stride, vf *u, size_t u_stride)
{
    const vf even[2] = {g[0], g[stride] + g[2 * stride]};
    const vf odd[2] = {g[0] + g[stride], g[2 * stride]};
    u[0] = even[0] * (1 / points_doubled.all[0]);
    u[u_stride] = (even[0] + even[1]) * (1 / points_doubled.scale[0]);
#pragma GCC unroll 8
    for (size_t i = 1; i < SHARED; i++) {
        const float x = points_doubled.x[i], scale = points_doubled.scale[i];
        u[2 * i * u_stride] = even[0] * (1 / (x * scale)) + even[1] * (1 / scale);
        u[(2 * i + 1) * u_stride] = odd[0] * (1 / scale) + odd[1] * (x / scale);
    }
    u[2 * SHARED * u_stride] = odd[1];
}

/* G g for one line of three: each point's line is divided by the product of its distances. */
INLINE void weight_line(const vf *g, size_t stride, vf *u, size_t u_stride, const int tile)
{
    const points *p = points_of(tile);
    if (tile >= DOUBLED) {
        weight_line_doubled(g, stride, u, u_stride);
        return;
    }
    u[0] = g[0] * (1 / p->all[0]);
#pragma GCC unroll 8
    for (int i = 0; i < tile / 2; i++) {
        const float x = p->x[i], scale = 1 / p->scale[i];
        vf even = g[0] * scale + g[2 * stride] * (x * x * scale), odd = g[stride] * (x * scale);
        put_both(u + (size_t)(2 * i + 1) * u_stride, u_stride, even, odd);
    }
    u[(size_t)(tile + 1) * u_stride] = g[2 * stride];
}

/* A^T m for doubled pixels. */
INLINE void output_line_doubled(const vf *m, size_t stride, vf *y, size_t y_stride)
{
    float power[SHARED] = {1, 1, 1, 1};
#pragma GCC unroll 8
    for (size_t k = 0; k < SHARED; k++) {
        vf even = m[stride], odd = m[stride]; /* at 1 */
        if (k == 0) even += m[0];
        if (k == SHARED - 1) odd += m[2 * SHARED * stride];
#pragma GCC unroll 8
        for (size_t i = 1; i < SHARED; i++) {
            even += m[2 * i * stride] * power[i];
            odd += m[(2 * i + 1) * stride] * power[i];
            power[i] *= points_doubled.x[i];
        }
        y[2 * k * y_stride] = even;
        y[(2 * k + 1) * y_stride] = odd;
    }
}

/* A^T m for one line. */
INLINE void output_line(const vf *m, size_t stride, vf *y, size_t y_stride, const int tile)
{
    const points *p = points_of(tile);
    float power[PAIRS] = {1, 1, 1, 1};
    vf sum[PAIRS], difference[PAIRS];
    if (tile >= DOUBLED) {
        output_line_doubled(m, stride, y, y_stride);
        return;
    }
#pragma GCC unroll 8
    for (int i = 0; i < tile / 2; i++) {
        vf a = m[(size_t)(2 * i + 1) * stride], b = m[(size_t)(2 * i + 2) * stride];
        sum[i] = a + b;
        difference[i] = a - b;
    }
#pragma GCC unroll 8
    for (int k = 0; k < tile; k++) {
        vf v = vf_set(0);
        if (k == 0) v = m[0];
        if (k == tile - 1) v = m[(size_t)(tile + 1) * stride];
#pragma GCC unroll 8
        for (int i = 0; i < tile / 2; i++) {
            v += (k % 2 ? difference[i] : sum[i]) * power[i];
            power[i] *= p->x[i];
        }
        y[(size_t)k * y_stride] = v;
    }
}

/* `call` with the tile's sides known to the compiler as `down` and `across`. */
#define FOR_TILE(s, call)                                                                          \
    do {                                                                                           \
        if ((s)->doubled) {                                                                        \
            enum { down = 8 + DOUBLED, across = 8 + DOUBLED };                                     \
            call;                                                                                  \
        } else if ((s)->across == 6) {                                                             \
            enum { down = 6, across = 6 };                                                         \
            call;                                                                                  \
        } else if ((s)->across == 8) {                                                             \
            enum { down = 8, across = 8 };                                                         \
            call;                                                                                  \
        } else if ((s)->down == 8) {                                                               \
            enum { down = 8, across = 4 };                                                         \
            call;                                                                                  \
        } else {                                                                                   \
            enum { down = 4, across = 4 };                                                         \
            call;                                                                                  \
        }                                                                                          \
    } while (0)

INLINE void input_tile(const void *const *pixel, graft_dtype t, const graft_cpu_winograd *s,
                       float *v, const int down, const int across)
{
    const int rows = PIXELS(down), columns = PIXELS(across);
    for (int64_t c = 0; c < s->inputs; c += VL) {
        float *to = v + c / s->chunk * s->chunk_stride + c % s->chunk;
        vf d[SIDE], half[SIDE * SIDE], line[SIDE];
        for (int x = 0; x < columns; x++) {
            for (int y = 0; y < rows; y++) {
                const void *p = pixel[y * columns + x];
                d[y] = p ? vf_get(p, t, (size_t)c) : vf_set(0);
            }
            input_line(d, 1, half + x, (size_t)columns, down);
        }
        for (int y = 0; y < rows; y++) {
            input_line(half + y * columns, 1, line, 1, across);
            for (int x = 0; x < columns; x++)
                vf_store(to + (y * columns + x) * s->pixel_stride, line[x]);
        }
    }
}

void SIMD(winograd_input)(const void *const *pixel, graft_dtype t, const graft_cpu_winograd *s,
                          float *v)
{
    FOR_TILE(s, input_tile(pixel, t, s, v, down, across));
}

INLINE void weights_block(const void *w, graft_dtype t, const graft_cpu_winograd *s, float *u,
                          const int down, const int across)
{
    const int rows = PRODUCTS(down), columns = PRODUCTS(across);
    for (size_t i = 0; i < BLOCK; i++, u += s->outputs) {
        for (size_t o = 0; o < BLOCK; o += VL) {
            vf g[9], half[SIDE * 3], line[SIDE];
            for (size_t k = 0; k < 9; k++) g[k] = vf_get(w, t, (k * BLOCK + i) * BLOCK + o);
            for (int x = 0; x < 3; x++) weight_line(g + x, 3, half + x, 3, down);
            for (int y = 0; y < rows; y++) {
                weight_line(half + y * 3, 1, line, 1, across);
                for (int x = 0; x < columns; x++)
                    vf_store(u + (y * columns + x) * s->weights_stride + o, line[x]);
            }
        }
    }
}

void SIMD(winograd_weights)(const void *w, graft_dtype t, const graft_cpu_winograd *s, float *u)
{
    FOR_TILE(s, weights_block(w, t, s, u, down, across));
}

/* `rows` by `vectors` sums in registers, which begin with 0 for each chunk of inputs. */
INLINE void multiply(const float *v, const float *u, const int64_t inputs, const int64_t outputs,
                     bool add, float *m, const int rows, const int vectors)
{
    vf sum[8][2];
    for (int r = 0; r < rows; r++)
        for (int j = 0; j < vectors; j++) sum[r][j] = vf_set(0);
    for (int64_t k = 0; k < inputs; k++) {
        vf b[2];
        for (int j = 0; j < vectors; j++) b[j] = vf_load(u + k * outputs + j * VL);
        for (int r = 0; r < rows; r++) {
            vf a = vf_set(v[r * inputs + k]);
            for (int j = 0; j < vectors; j++) sum[r][j] += a * b[j];
        }
    }
    for (int r = 0; r < rows; r++) {
        for (int j = 0; j < vectors; j++) {
            float *to = m + r * outputs + j * VL;
            vf_store(to, add ? vf_load(to) + sum[r][j] : sum[r][j]);
        }
    }
}

/* All tiles by two vectors of outputs, or one. */
INLINE void multiply_columns(const float *v, const float *u, const int64_t inputs,
                             const int64_t outputs, int64_t tiles, bool add, float *m,
                             const int vectors)
{
    const int most = REGISTERS == 32 ? 8 : 4;
    int64_t t = 0;
    for (; t + most <= tiles; t += most) {
        const float *next = v + (t + most) * inputs;
        for (int64_t i = 0; i < most * inputs; i += 16) __builtin_prefetch(next + i);
        multiply(v + t * inputs, u, inputs, outputs, add, m + t * outputs, most, vectors);
    }
    for (; t + 4 <= tiles; t += 4)
        multiply(v + t * inputs, u, inputs, outputs, add, m + t * outputs, 4, vectors);
    for (; t < tiles; t++)
        multiply(v + t * inputs, u, inputs, outputs, add, m + t * outputs, 1, vectors);
}

INLINE void multiply_all(const float *v, const float *u, const int64_t inputs,
                         const int64_t outputs, int64_t tiles, bool add, float *m)
{
    int64_t o = 0;
    for (; o + 2 * VL <= outputs; o += 2 * VL)
        multiply_columns(v, u + o, inputs, outputs, tiles, add, m + o, 2);
    if (o < outputs) multiply_columns(v, u + o, inputs, outputs, tiles, add, m + o, 1);
}

/* Strides that the compiler knows are worth a tenth of the time. */
void SIMD(winograd_multiply)(const float *v, const float *u, const graft_cpu_winograd *s,
                             int64_t tiles, bool add, float *m)
{
    if (s->outputs == 32 && s->chunk == 32)
        multiply_all(v, u, 32, 32, tiles, add, m);
    else
        multiply_all(v, u, s->chunk, s->outputs, tiles, add, m);
}

/* Past the caches where that is asked for and lines are whole. */
INLINE void put_line(const graft_cpu_winograd_place *p, void *to, const vf *v, const int vectors)
{
#if GRAFT_ISA_LEVEL >= 2
    if (p->stream && vectors == 2) {
        if (p->dtype == GRAFT_F32) {
            _mm512_stream_ps(to, (__m512)v[0]);
            _mm512_stream_ps((float *)to + VL, (__m512)v[1]);
        } else {
            __m512i both = _mm512_castsi256_si512((__m256i)vf_to_bf16(v[0]));
            _mm512_stream_si512(to, _mm512_inserti64x4(both, (__m256i)vf_to_bf16(v[1]), 1));
        }
        return;
    }
#endif
    for (int j = 0; j < vectors; j++) vf_put(to, p->dtype, (size_t)j * VL, v[j]);
}

/* Channels o .. o + vectors * VL - 1. */
INLINE void output_channels(const float *m, const graft_cpu_winograd *s, const float *bias,
                            const graft_cpu_winograd_place *p, int64_t o, const int vectors,
                            const int down, const int across)
{
    const int rows = PRODUCTS(down), columns = PRODUCTS(across);
    const size_t size = graft_dtype_size(p->dtype), r_size = graft_dtype_size(p->residual_dtype);
    vf half[2][MOST * SIDE], line[2][MOST], b[2];
    for (int j = 0; j < vectors; j++) {
        b[j] = vf_load(bias + o + j * VL);
        for (int x = 0; x < columns; x++) {
            vf d[SIDE];
            for (int y = 0; y < rows; y++)
                d[y] = vf_load(m + (y * columns + x) * s->sums_stride + o + j * VL);
            output_line(d, 1, half[j] + x, (size_t)columns, down);
        }
    }
    for (int y = 0; y < p->rows; y++) {
        for (int j = 0; j < vectors; j++) output_line(half[j] + y * columns, 1, line[j], 1, across);
        for (int x = 0; x < p->columns; x++) {
            const char *r = p->residual;
            vf v[2];
            if (r) r += (size_t)(y * p->residual_row + x * p->residual_column + o) * r_size;
            for (int j = 0; j < vectors; j++) {
                v[j] = line[j][x] + b[j];
                if (r) v[j] += vf_get(r, p->residual_dtype, (size_t)j * VL);
                v[j] = vf_act(p->act, v[j]);
            }
            put_line(p, (char *)p->y + (size_t)(y * p->row + x * p->column + o) * size, v, vectors);
        }
    }
}

INLINE void output_tile(const float *m, const graft_cpu_winograd *s, const float *bias,
                        const graft_cpu_winograd_place *p, const int down, const int across)
{
    int64_t o = 0;
    for (; o + 2 * VL <= s->outputs; o += 2 * VL)
        output_channels(m, s, bias, p, o, 2, down, across);
    if (o < s->outputs) output_channels(m, s, bias, p, o, 1, down, across);
}

void SIMD(winograd_output)(const float *m, const graft_cpu_winograd *s, const float *bias,
                           const graft_cpu_winograd_place *p)
{
    FOR_TILE(s, output_tile(m, s, bias, p, down, across));
}
