/* The four steps of Winograd's F(4x4, 3x3) and F(6x6, 3x3) on vectors of channels (Lavin and Gray
 * 2015, section 4; Barabasz et al. 2020 for the choice of points).
 *
 * F(4x4) evaluates polynomials at 0, A, -A, B, -B and infinity. With A = 2/3 and B = 3/2 the
 * rounding error is less than half of that with the usual 1 and 2, and A * B = 1 saves products.
 * F(6x6) does so at 0, 1/2, 1, 2, their negatives and infinity: no other points were found with a
 * smaller error, which is four times that of F(4x4). Of the products of a direct convolution F(4x4)
 * leaves a fourth, F(6x6) a fifth. */
#include "kernels/cpu/simd/functions.h"

#define MOST  6  /* outputs a side */
#define SIDE  8  /* inputs a side then */
#define BLOCK 16 /* channels of a block of weights */

#define A  (2.0f / 3.0f)
#define B  1.5f
#define A2 (A * A)
#define B2 (B * B)

/* A point's place and its negative's. */
INLINE void put_both(vf *t, size_t stride, vf even, vf odd)
{
    t[0] = even + odd;
    t[stride] = even - odd;
}

/* B^T d for one line. */
INLINE void input_line(const vf *d, size_t stride, vf *t, size_t t_stride, const int tile)
{
    vf d1 = d[stride], d2 = d[2 * stride], d3 = d[3 * stride], d4 = d[4 * stride];
    if (tile == 4) {
        vf even_a = d4 - d2 * B2, odd_a = (d3 - d1 * B2) * A;
        vf even_b = d4 - d2 * A2, odd_b = (d3 - d1 * A2) * B;
        t[0] = d[0] - d2 * (A2 + B2) + d4;
        put_both(t + t_stride, t_stride, even_a, odd_a);
        put_both(t + 3 * t_stride, t_stride, even_b, odd_b);
        t[5 * t_stride] = d1 - d3 * (A2 + B2) + d[5 * stride];
    } else {
        vf d5 = d[5 * stride], d6 = d[6 * stride];
        vf even_half = d6 - d4 * 5.0f + d2 * 4.0f, odd_half = (d5 - d3 * 5.0f + d1 * 4.0f) * 0.5f;
        vf even_one = d6 - d4 * 4.25f + d2, odd_one = d5 - d3 * 4.25f + d1;
        vf even_two = d6 - d4 * 1.25f + d2 * 0.25f, odd_two = (d5 - d3 * 1.25f + d1 * 0.25f) * 2.0f;
        t[0] = d6 - d[0] + (d2 - d4) * 5.25f;
        put_both(t + t_stride, t_stride, even_half, odd_half);
        put_both(t + 3 * t_stride, t_stride, even_one, odd_one);
        put_both(t + 5 * t_stride, t_stride, even_two, odd_two);
        t[7 * t_stride] = d[7 * stride] - d1 + (d3 - d5) * 5.25f;
    }
}

/* G g for one line of three: each point's line is divided by the product of its distances. */
INLINE void weight_line(const vf *g, size_t stride, vf *u, size_t u_stride, const int tile)
{
    if (tile == 4) {
        const float at_a = 1 / (2 * A2 * (A2 - B2)), at_b = 1 / (2 * B2 * (B2 - A2));
        vf even_a = (g[0] + g[2 * stride] * A2) * at_a, odd_a = g[stride] * (at_a * A);
        vf even_b = (g[0] + g[2 * stride] * B2) * at_b, odd_b = g[stride] * (at_b * B);
        u[0] = g[0];
        put_both(u + u_stride, u_stride, even_a, odd_a);
        put_both(u + 3 * u_stride, u_stride, even_b, odd_b);
        u[5 * u_stride] = g[2 * stride];
    } else {
        const float half = 1 / 1.40625f, one = 1 / -4.5f, two = 1 / 90.0f;
        vf even_half = (g[0] + g[2 * stride] * 0.25f) * half, odd_half = g[stride] * (half * 0.5f);
        vf even_one = (g[0] + g[2 * stride]) * one, odd_one = g[stride] * one;
        vf even_two = (g[0] + g[2 * stride] * 4.0f) * two, odd_two = g[stride] * (two * 2.0f);
        u[0] = -g[0];
        put_both(u + u_stride, u_stride, even_half, odd_half);
        put_both(u + 3 * u_stride, u_stride, even_one, odd_one);
        put_both(u + 5 * u_stride, u_stride, even_two, odd_two);
        u[7 * u_stride] = g[2 * stride];
    }
}

/* A^T m for one line. */
INLINE void output_line(const vf *m, size_t stride, vf *y, size_t y_stride, const int tile)
{
    vf sum_a = m[stride] + m[2 * stride], diff_a = m[stride] - m[2 * stride];
    vf sum_b = m[3 * stride] + m[4 * stride], diff_b = m[3 * stride] - m[4 * stride];
    if (tile == 4) {
        y[0] = m[0] + sum_a + sum_b;
        y[y_stride] = diff_a * A + diff_b * B;
        y[2 * y_stride] = sum_a * A2 + sum_b * B2;
        y[3 * y_stride] = diff_a * (A2 * A) + diff_b * (B2 * B) + m[5 * stride];
    } else {
        vf sum_c = m[5 * stride] + m[6 * stride], diff_c = m[5 * stride] - m[6 * stride];
        y[0] = m[0] + sum_a + sum_b + sum_c;
        y[y_stride] = diff_a * 0.5f + diff_b + diff_c * 2.0f;
        y[2 * y_stride] = sum_a * 0.25f + sum_b + sum_c * 4.0f;
        y[3 * y_stride] = diff_a * 0.125f + diff_b + diff_c * 8.0f;
        y[4 * y_stride] = sum_a * 0.0625f + sum_b + sum_c * 16.0f;
        y[5 * y_stride] = diff_a * 0.03125f + diff_b + diff_c * 32.0f + m[7 * stride];
    }
}

INLINE void input_tile(const void *const *pixel, graft_dtype t, const graft_cpu_winograd *s,
                       float *v, const int tile)
{
    const int side = tile + 2;
    for (int64_t c = 0; c < s->inputs; c += VL) {
        float *to = v + c / s->chunk * s->chunk_stride + c % s->chunk;
        vf d[SIDE], half[SIDE * SIDE], line[SIDE];
        for (int x = 0; x < side; x++) {
            for (int y = 0; y < side; y++) {
                const void *p = pixel[y * side + x];
                d[y] = p ? vf_get(p, t, (size_t)c) : vf_set(0);
            }
            input_line(d, 1, half + x, (size_t)side, tile);
        }
        for (int y = 0; y < side; y++) {
            input_line(half + y * side, 1, line, 1, tile);
            for (int x = 0; x < side; x++)
                vf_store(to + (y * side + x) * s->position_stride, line[x]);
        }
    }
}

void SIMD(winograd_input)(const void *const *pixel, graft_dtype t, const graft_cpu_winograd *s,
                          float *v)
{
    if (s->tile == 4)
        input_tile(pixel, t, s, v, 4);
    else
        input_tile(pixel, t, s, v, 6);
}

INLINE void weights_block(const void *w, graft_dtype t, const graft_cpu_winograd *s, float *u,
                          const int tile)
{
    const int side = tile + 2;
    for (size_t i = 0; i < BLOCK; i++, u += s->outputs) {
        for (size_t o = 0; o < BLOCK; o += VL) {
            vf g[9], half[SIDE * 3], line[SIDE];
            for (size_t k = 0; k < 9; k++) g[k] = vf_get(w, t, (k * BLOCK + i) * BLOCK + o);
            for (int x = 0; x < 3; x++) weight_line(g + x, 3, half + x, 3, tile);
            for (int y = 0; y < side; y++) {
                weight_line(half + y * 3, 1, line, 1, tile);
                for (int x = 0; x < side; x++)
                    vf_store(u + (y * side + x) * s->weights_stride + o, line[x]);
            }
        }
    }
}

void SIMD(winograd_weights)(const void *w, graft_dtype t, const graft_cpu_winograd *s, float *u)
{
    if (s->tile == 4)
        weights_block(w, t, s, u, 4);
    else
        weights_block(w, t, s, u, 6);
}

/* `rows` by `vectors` sums in registers. */
INLINE void multiply(const float *v, const float *u, const int64_t inputs, const int64_t outputs,
                     bool add, float *m, const int rows, const int vectors)
{
    vf sum[8][2];
    for (int r = 0; r < rows; r++)
        for (int j = 0; j < vectors; j++)
            sum[r][j] = add ? vf_load(m + r * outputs + j * VL) : vf_set(0);
    for (int64_t k = 0; k < inputs; k++) {
        vf b[2];
        for (int j = 0; j < vectors; j++) b[j] = vf_load(u + k * outputs + j * VL);
        for (int r = 0; r < rows; r++) {
            vf a = vf_set(v[r * inputs + k]);
            for (int j = 0; j < vectors; j++) sum[r][j] += a * b[j];
        }
    }
    for (int r = 0; r < rows; r++)
        for (int j = 0; j < vectors; j++) vf_store(m + r * outputs + j * VL, sum[r][j]);
}

/* All tiles by two vectors of outputs, or one. */
INLINE void multiply_columns(const float *v, const float *u, const int64_t inputs,
                             const int64_t outputs, int64_t tiles, bool add, float *m,
                             const int vectors)
{
    const int most = VL == 16 ? 8 : 4;
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
                            const int tile)
{
    const int side = tile + 2;
    const size_t size = graft_dtype_size(p->dtype), r_size = graft_dtype_size(p->residual_dtype);
    vf half[2][MOST * SIDE], line[2][MOST], b[2];
    for (int j = 0; j < vectors; j++) {
        b[j] = vf_load(bias + o + j * VL);
        for (int x = 0; x < side; x++) {
            vf d[SIDE];
            for (int y = 0; y < side; y++)
                d[y] = vf_load(m + (y * side + x) * s->sums_stride + o + j * VL);
            output_line(d, 1, half[j] + x, (size_t)side, tile);
        }
    }
    for (int y = 0; y < p->rows; y++) {
        for (int j = 0; j < vectors; j++) output_line(half[j] + y * side, 1, line[j], 1, tile);
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
                        const graft_cpu_winograd_place *p, const int tile)
{
    int64_t o = 0;
    for (; o + 2 * VL <= s->outputs; o += 2 * VL) output_channels(m, s, bias, p, o, 2, tile);
    if (o < s->outputs) output_channels(m, s, bias, p, o, 1, tile);
}

void SIMD(winograd_output)(const float *m, const graft_cpu_winograd *s, const float *bias,
                           const graft_cpu_winograd_place *p)
{
    if (s->tile == 4)
        output_tile(m, s, bias, p, 4);
    else
        output_tile(m, s, bias, p, 6);
}
