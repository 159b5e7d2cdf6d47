#include <string.h>

#include "kernels/ref/ref.h"

/* Sums of a tile stay in registers. The compiler makes of such a vector what the processor has. */
enum { LANES = 8, TILE_ROWS = 4 };
typedef float lanes __attribute__((vector_size(LANES * sizeof(float))));

/* Whole models run on these loops in tests, and sanitizers make them ten times slower: the first
 * and the last element that a call touches are checked in front of them instead. */
#define UNCHECKED __attribute__((no_sanitize("address"), no_sanitize("undefined")))
#define ALWAYS    static inline __attribute__((always_inline))

/* rows <= TILE_ROWS, LANES columns from j on. */
UNCHECKED ALWAYS void add_tile(float *const *acc, const float *const *x, int rows, int64_t k,
                               const float *w, int64_t ldw, int64_t j)
{
    lanes sum[TILE_ROWS], v;
    for (int r = 0; r < rows; r++) memcpy(&sum[r], acc[r] + j, sizeof v);
    for (int64_t i = 0; i < k; i++) {
        memcpy(&v, w + i * ldw + j, sizeof v);
        for (int r = 0; r < rows; r++) sum[r] += x[r][i] * v;
    }
    for (int r = 0; r < rows; r++) memcpy(acc[r] + j, &sum[r], sizeof v);
}

UNCHECKED ALWAYS void multiply_add(float *const *acc, const float *const *x, int rows, int64_t k,
                                   const float *w, int64_t ldw, int64_t n)
{
    int r = 0;
    for (; r + TILE_ROWS <= rows; r += TILE_ROWS)
        for (int64_t j = 0; j + LANES <= n; j += LANES)
            add_tile(acc + r, x + r, TILE_ROWS, k, w, ldw, j);
    for (; r < rows; r++)
        for (int64_t j = 0; j + LANES <= n; j += LANES) add_tile(acc + r, x + r, 1, k, w, ldw, j);
    for (r = 0; r < rows; r++)
        for (int64_t i = 0; i < k; i++)
            for (int64_t j = n / LANES * LANES; j < n; j++) acc[r][j] += x[r][i] * w[i * ldw + j];
}

/* Without fused multiply-adds the bits are the same with all instruction sets. */
#ifdef __x86_64__
UNCHECKED __attribute__((target("avx2"))) static void
multiply_add_avx2(float *const *acc, const float *const *x, int rows, int64_t k, const float *w,
                  int64_t ldw, int64_t n)
{
    multiply_add(acc, x, rows, k, w, ldw, n);
}
#endif

UNCHECKED static void multiply_add_plain(float *const *acc, const float *const *x, int rows,
                                         int64_t k, const float *w, int64_t ldw, int64_t n)
{
    multiply_add(acc, x, rows, k, w, ldw, n);
}

void graft_ref_multiply_add(float *const *acc, const float *const *x, int rows, int64_t k,
                            const float *w, int64_t ldw, int64_t n)
{
    if (rows < 1 || k < 1 || n < 1) return;
#ifdef __SANITIZE_ADDRESS__
    volatile float seen = w[0] + w[(k - 1) * ldw + n - 1];
    for (int r = 0; r < rows; r++) seen += acc[r][0] + acc[r][n - 1] + x[r][0] + x[r][k - 1];
#endif
#ifdef __x86_64__
    if (__builtin_cpu_supports("avx2")) {
        multiply_add_avx2(acc, x, rows, k, w, ldw, n);
        return;
    }
#endif
    multiply_add_plain(acc, x, rows, k, w, ldw, n);
}

void graft_ref_transpose(const float *src, int64_t lds, int64_t rows, int64_t cols, float *dst)
{
    for (int64_t r = 0; r < rows; r++)
        for (int64_t c = 0; c < cols; c++) dst[c * rows + r] = src[r * lds + c];
}

static float sigmoid(float x)
{
    return 1.0f / (1.0f + expf(-x));
}

float graft_ref_act(graft_act act, float x)
{
    switch (act) {
    case GRAFT_ACT_SILU:
        return x * sigmoid(x);
    /* erfc keeps its digits where 1 + erf would cancel. */
    case GRAFT_ACT_GELU:
        return 0.5f * x * erfcf(-x * (float)M_SQRT1_2);
    case GRAFT_ACT_QUICK_GELU:
        return x * sigmoid(1.702f * x);
    case GRAFT_ACT_LEAKY:
        return x < 0 ? 0.2f * x : x;
    case GRAFT_ACT_RELU:
        return x < 0 ? 0.0f : x; /* NaN passes through */
    case GRAFT_ACT_GELU_TANH:
        return x * sigmoid(2.0f * 0.7978845608f * (x + 0.044715f * x * x * x)); /* the same */
    case GRAFT_ACT_TANH:
        return tanhf(x);
    default:
        return x;
    }
}

void graft_ref_act_row(graft_act act, float *x, int64_t n)
{
    if (act == GRAFT_ACT_NONE) return;
    for (int64_t i = 0; i < n; i++) x[i] = graft_ref_act(act, x[i]);
}

void graft_ref_layer_norm(const float *x, const float *gamma, const float *beta, float eps,
                          float *y, int64_t n)
{
    double sum = 0, squares = 0;
    for (int64_t i = 0; i < n; i++) sum += (double)x[i];
    double mean = sum / (double)n;
    for (int64_t i = 0; i < n; i++) squares += ((double)x[i] - mean) * ((double)x[i] - mean);
    double inverse = 1.0 / sqrt(squares / (double)n + (double)eps);
    for (int64_t i = 0; i < n; i++)
        y[i] = (float)(((double)x[i] - mean) * inverse) * gamma[i] + beta[i];
}
