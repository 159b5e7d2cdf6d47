#include "kernels/ref/ref.h"

/* Columns at a time: eight such rows of sums stay in the first-level cache. */
enum { COLUMNS = 128 };

/* Whole models run on these loops in tests, and sanitizers make them ten times slower: the first
 * and the last element that a call touches are checked in front of them instead. */
#define UNCHECKED __attribute__((no_sanitize("address"), no_sanitize("undefined")))

UNCHECKED static void add_scaled(float *restrict acc, float x, const float *restrict w, int64_t n)
{
    for (int64_t j = 0; j < n; j++) acc[j] += x * w[j];
}

/* Whole blocks, with a loop count that the compiler knows. */
UNCHECKED static void add_scaled_block(float *restrict acc, float x, const float *restrict w)
{
    for (int j = 0; j < COLUMNS; j++) acc[j] += x * w[j];
}

UNCHECKED static void multiply_add(float *const *acc, const float *const *x, int rows, int64_t k,
                                   const float *w, int64_t ldw, int64_t n)
{
    for (int64_t j = 0; j < n; j += COLUMNS) {
        int64_t left = n - j;
        if (left < COLUMNS) {
            for (int64_t i = 0; i < k; i++)
                for (int r = 0; r < rows; r++)
                    add_scaled(acc[r] + j, x[r][i], w + i * ldw + j, left);
        } else {
            for (int64_t i = 0; i < k; i++)
                for (int r = 0; r < rows; r++)
                    add_scaled_block(acc[r] + j, x[r][i], w + i * ldw + j);
        }
    }
}

void graft_ref_multiply_add(float *const *acc, const float *const *x, int rows, int64_t k,
                            const float *w, int64_t ldw, int64_t n)
{
    if (rows < 1 || k < 1 || n < 1) return;
#ifdef __SANITIZE_ADDRESS__
    volatile float seen = w[0] + w[(k - 1) * ldw + n - 1];
    for (int r = 0; r < rows; r++) seen += acc[r][0] + acc[r][n - 1] + x[r][0] + x[r][k - 1];
#endif
    multiply_add(acc, x, rows, k, w, ldw, n);
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
    default:
        return x;
    }
}

void graft_ref_act_row(graft_act act, float *x, int64_t n)
{
    if (act == GRAFT_ACT_NONE) return;
    for (int64_t i = 0; i < n; i++) x[i] = graft_ref_act(act, x[i]);
}
