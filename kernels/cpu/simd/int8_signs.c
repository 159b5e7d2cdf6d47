/* int8 LINEAR with AVX2, which multiplies bytes without signs by bytes with signs and adds pairs of
 * products in 16 bits: exact where neither is above 127, as 2 * 127 * 127 fits. So a weight leaves
 * its sign to the level that it is multiplied by. A tile is ROWS rows by two vectors of outputs,
 * whose sums stay in registers over all inputs.
 *
 * With AVX-VNNI (GRAFT_ISA_BYTES) one instruction stands for the three that multiply and add: the
 * same sums, of the same levels and weights. */
#include "kernels/cpu/simd/tile.h"

#if GRAFT_ISA_LEVEL == 1

#define ROWS 4 /* with what two vectors of weights need, all that registers hold */
#define HALF (GRAFT_CPU_INT8_PANEL / 2)
_Static_assert(GRAFT_CPU_INT8_ROWS % ROWS == 0, "rows that may be read");

/* Two vectors of a panel's outputs. */
typedef struct column {
    int place[2];     /* outputs into the panel */
    int64_t at[2];    /* of the results; with GEGLU the first alone */
    int64_t count[2]; /* that are there, of a vector */
    float scale[2][VL], bias[2][VL];
} column;

INLINE __m256i quad(const uint8_t *p)
{
    int32_t four;
    memcpy(&four, p, sizeof four);
    return _mm256_set1_epi32(four);
}

/* A macro of instructions, since compilers find no register for the last sum. */
#if GRAFT_ISA_BYTES
#define DOT(sum, x, w, size, ones)                                                                 \
    do {                                                                                           \
        __m256i t_;                                                                                \
        __asm__("vpsignb %3, %2, %0\n\t"                                                           \
                "%{vex%} vpdpbusd %0, %4, %1"                                                      \
                : "=&x"(t_), "+x"(sum)                                                             \
                : "x"(x), "x"(w), "x"(size));                                                      \
        (void)(ones);                                                                              \
    } while (0)
#else
#define DOT(sum, x, w, size, ones)                                                                 \
    do {                                                                                           \
        __m256i t_;                                                                                \
        __asm__("vpsignb %3, %2, %0\n\t"                                                           \
                "vpmaddubsw %0, %4, %0\n\t"                                                        \
                "vpmaddwd %5, %0, %0\n\t"                                                          \
                "vpaddd %0, %1, %1"                                                                \
                : "=&x"(t_), "+x"(sum)                                                             \
                : "x"(x), "x"(w), "x"(size), "x"(ones));                                           \
    } while (0)
#endif

INLINE void multiply(const graft_cpu_int8 *job, const uint8_t *x, const int8_t *w, int second,
                     __m256i sum[ROWS][2])
{
    const __m256i ones = _mm256_set1_epi16(1);
    const uint8_t *high = x + 2 * job->stride;
    int64_t s = job->stride;
#pragma GCC unroll 4
    for (int r = 0; r < ROWS; r++) sum[r][0] = sum[r][1] = _mm256_setzero_si256();
#pragma GCC unroll 1
    for (int64_t i = 0; i < job->quads; i++, w += 4 * GRAFT_CPU_INT8_PANEL) {
        __m256i a = _mm256_load_si256((const __m256i *)(const void *)w);
        __m256i b = _mm256_load_si256((const __m256i *)(const void *)(w + second));
        __m256i a_size = _mm256_abs_epi8(a), b_size = _mm256_abs_epi8(b);
#pragma GCC unroll 4
        for (int r = 0; r < ROWS; r++) {
            __m256i v = quad((r < 2 ? x : high) + r % 2 * s + 4 * i);
            DOT(sum[r][0], v, a, a_size, ones);
            DOT(sum[r][1], v, b, b_size, ones);
        }
    }
}

INLINE vf value_of(const column *c, int v, __m256i sum, float row_scale)
{
    vf factor = vf_load(c->scale[v]) * vf_set(row_scale);
    return (vf)_mm256_cvtepi32_ps(sum) * factor + vf_load(c->bias[v]);
}

INLINE void finish(const graft_cpu_int8 *job, int64_t row, const column *c, const __m256i sum[2])
{
    float scale = job->row_scale[row];
    if (job->act == GRAFT_ACT_GEGLU) {
        vf x = value_of(c, 0, sum[0], scale) * vf_gelu(value_of(c, 1, sum[1], scale));
        put(job->out[row], job->out_type, c->at[0], c->count[0], x);
        return;
    }
#pragma GCC unroll 2
    for (int v = 0; v < 2; v++) {
        vf x = value_of(c, v, sum[v], scale);
        const void *add = job->residual ? job->residual[row] : NULL;
        size_t at = (size_t)c->at[v], n = (size_t)c->count[v];
        if (add && n == VL)
            x = x + vf_get(add, job->residual_type, at);
        else if (add && n > 0)
            x = x + vf_get_tail(add, job->residual_type, at, n);
        if (job->act != GRAFT_ACT_NONE) x = vf_act(job->act, x);
        put(job->out[row], job->out_type, c->at[v], c->count[v], x);
    }
}

/* One of a panel's two columns; false: it has no outputs. */
static bool open_column(const graft_cpu_int8 *job, int64_t panel, int side, column *c)
{
    bool geglu = job->act == GRAFT_ACT_GEGLU;
    int64_t results = geglu ? job->outputs / 2 : job->outputs;
    int64_t first = panel * (geglu ? HALF : 2 * HALF) + side * (geglu ? VL : HALF);
    for (int v = 0; v < 2; v++) {
        int64_t at = geglu ? first : first + v * VL, left = results - at;
        int64_t from = geglu && v ? results + at : at;
        c->place[v] = geglu ? side * VL + v * HALF : side * HALF + v * VL;
        c->at[v] = at;
        c->count[v] = left < 0 ? 0 : left < VL ? left : VL;
        fill(c->scale[v], job->scale, from, c->count[v]);
        fill(c->bias[v], job->bias, from, c->count[v]);
    }
    return c->count[0] > 0;
}

void SIMD(int8_multiply)(const graft_cpu_int8 *job, int64_t first, int64_t panels)
{
    int64_t tiles = (job->rows + ROWS - 1) / ROWS, size = 4 * GRAFT_CPU_INT8_PANEL * job->quads;
    stream soon = stream_of(job->ahead, job->ahead_bytes, 2 * tiles * panels);
    for (int64_t p = first; p < first + panels; p++)
        for (int side = 0; side < 2; side++) {
            column c;
            if (!open_column(job, p, side, &c)) continue;
            const int8_t *w = job->weight + p * size + 4 * c.place[0];
            for (int64_t row = 0; row < job->rows; row += ROWS) {
                __m256i sum[ROWS][2];
                multiply(job, job->level + row * job->stride, w, 4 * (c.place[1] - c.place[0]),
                         sum);
                fetch(&soon);
#pragma GCC unroll 4
                for (int r = 0; r < ROWS; r++)
                    if (row + r < job->rows) finish(job, row + r, &c, sum[r]);
            }
        }
}

#if !GRAFT_ISA_BYTES /* AVX2's serve both */
void SIMD(int8_levels)(const void *x, graft_dtype xt, float inverse, uint8_t *y, size_t n)
{
    SIMD(to_s8)(x, xt, inverse, (int8_t *)y, n);
}
#endif
#endif
