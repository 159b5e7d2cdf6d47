/* The four steps of Winograd's F(4x4, 3x3) on vectors of channels (Lavin and Gray 2015, section 4;
 * Barabasz et al. 2020 for the choice of points).
 *
 * The polynomial is evaluated at 0, A, -A, B, -B and infinity. With A = 2/3 and B = 3/2 the
 * rounding error is less than half of that with the usual 1 and 2, and A * B = 1 saves products. */
#include "kernels/cpu/simd/functions.h"

#define SIDE      6  /* of a tile of the input */
#define OUT       4  /* of the output */
#define POSITIONS 36 /* SIDE * SIDE */
#define BLOCK     16 /* channels of a block of weights */

#define A  (2.0f / 3.0f)
#define B  1.5f
#define A2 (A * A)
#define B2 (B * B)

/* B^T d for one line of six. */
INLINE void input_line(const vf *d, size_t stride, vf *t, size_t t_stride)
{
    vf even_a = d[4 * stride] - d[2 * stride] * B2, odd_a = (d[3 * stride] - d[stride] * B2) * A;
    vf even_b = d[4 * stride] - d[2 * stride] * A2, odd_b = (d[3 * stride] - d[stride] * A2) * B;
    t[0] = d[0] - d[2 * stride] * (A2 + B2) + d[4 * stride];
    t[t_stride] = even_a + odd_a;
    t[2 * t_stride] = even_a - odd_a;
    t[3 * t_stride] = even_b + odd_b;
    t[4 * t_stride] = even_b - odd_b;
    t[5 * t_stride] = d[stride] - d[3 * stride] * (A2 + B2) + d[5 * stride];
}

/* G g for one line of three. */
INLINE void weight_line(const vf *g, size_t stride, vf *u, size_t u_stride)
{
    const float at_a = 1 / (2 * A2 * (A2 - B2)), at_b = 1 / (2 * B2 * (B2 - A2));
    vf even_a = (g[0] + g[2 * stride] * A2) * at_a, odd_a = g[stride] * (at_a * A);
    vf even_b = (g[0] + g[2 * stride] * B2) * at_b, odd_b = g[stride] * (at_b * B);
    u[0] = g[0];
    u[u_stride] = even_a + odd_a;
    u[2 * u_stride] = even_a - odd_a;
    u[3 * u_stride] = even_b + odd_b;
    u[4 * u_stride] = even_b - odd_b;
    u[5 * u_stride] = g[2 * stride];
}

/* A^T m for one line of six. */
INLINE void output_line(const vf *m, size_t stride, vf *y, size_t y_stride)
{
    vf sum_a = m[stride] + m[2 * stride], diff_a = m[stride] - m[2 * stride];
    vf sum_b = m[3 * stride] + m[4 * stride], diff_b = m[3 * stride] - m[4 * stride];
    y[0] = m[0] + sum_a + sum_b;
    y[y_stride] = diff_a * A + diff_b * B;
    y[2 * y_stride] = sum_a * A2 + sum_b * B2;
    y[3 * y_stride] = diff_a * (A2 * A) + diff_b * (B2 * B) + m[5 * stride];
}

void SIMD(winograd_input)(const void *const *pixel, graft_dtype t, const graft_cpu_winograd *s,
                          float *v)
{
    for (int64_t c = 0; c < s->inputs; c += VL) {
        float *to = v + c / s->chunk * s->chunk_stride + c % s->chunk;
        vf d[POSITIONS], half[POSITIONS], line[SIDE];
        for (int i = 0; i < POSITIONS; i++)
            d[i] = pixel[i] ? vf_get(pixel[i], t, (size_t)c) : vf_set(0);
        for (int x = 0; x < SIDE; x++) input_line(d + x, SIDE, half + x, SIDE);
        for (int y = 0; y < SIDE; y++) {
            input_line(half + y * SIDE, 1, line, 1);
            for (int x = 0; x < SIDE; x++)
                vf_store(to + (y * SIDE + x) * s->position_stride, line[x]);
        }
    }
}

void SIMD(winograd_weights)(const void *w, graft_dtype t, const graft_cpu_winograd *s, float *u)
{
    for (size_t i = 0; i < BLOCK; i++, u += s->outputs) {
        for (size_t o = 0; o < BLOCK; o += VL) {
            vf g[9], half[SIDE * 3], line[SIDE];
            for (size_t k = 0; k < 9; k++) g[k] = vf_get(w, t, (k * BLOCK + i) * BLOCK + o);
            for (int x = 0; x < 3; x++) weight_line(g + x, 3, half + x, 3);
            for (int y = 0; y < SIDE; y++) {
                weight_line(half + y * 3, 1, line, 1);
                for (int x = 0; x < SIDE; x++)
                    vf_store(u + (y * SIDE + x) * s->weights_stride + o, line[x]);
            }
        }
    }
}

/* `rows` by `vectors` sums in registers. */
INLINE void multiply(const float *v, const float *u, int64_t inputs, int64_t outputs, bool add,
                     float *m, const int rows, const int vectors)
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
INLINE void multiply_columns(const float *v, const float *u, const graft_cpu_winograd *s,
                             int64_t tiles, bool add, float *m, const int vectors)
{
    const int most = VL == 16 ? 8 : 4;
    int64_t t = 0;
    for (; t + most <= tiles; t += most) {
        const float *next = v + (t + most) * s->chunk;
        for (int64_t i = 0; i < most * s->chunk; i += 16) __builtin_prefetch(next + i);
        multiply(v + t * s->chunk, u, s->chunk, s->outputs, add, m + t * s->outputs, most, vectors);
    }
    for (; t + 4 <= tiles; t += 4)
        multiply(v + t * s->chunk, u, s->chunk, s->outputs, add, m + t * s->outputs, 4, vectors);
    for (; t < tiles; t++)
        multiply(v + t * s->chunk, u, s->chunk, s->outputs, add, m + t * s->outputs, 1, vectors);
}

void SIMD(winograd_multiply)(const float *v, const float *u, const graft_cpu_winograd *s,
                             int64_t tiles, bool add, float *m)
{
    int64_t o = 0;
    for (; o + 2 * VL <= s->outputs; o += 2 * VL)
        multiply_columns(v, u + o, s, tiles, add, m + o, 2);
    if (o < s->outputs) multiply_columns(v, u + o, s, tiles, add, m + o, 1);
}

void SIMD(winograd_output)(const float *m, const graft_cpu_winograd *s, const float *bias,
                           float *pixel)
{
    for (int64_t o = 0; o < s->outputs; o += VL) {
        vf d[POSITIONS], half[OUT * SIDE], line[OUT];
        vf b = bias ? vf_load(bias + o) : vf_set(0);
        for (int i = 0; i < POSITIONS; i++) d[i] = vf_load(m + i * s->sums_stride + o);
        for (int x = 0; x < SIDE; x++) output_line(d + x, SIDE, half + x, SIDE);
        for (int y = 0; y < OUT; y++) {
            output_line(half + y * SIDE, 1, line, 1);
            for (int x = 0; x < OUT; x++)
                vf_store(pixel + (y * OUT + x) * s->outputs + o, line[x] + b);
        }
    }
}
