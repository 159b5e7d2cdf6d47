/* Rows times the regular Hadamard matrix (kernels/hadamard.h), in the order that is told there. */
#include "kernels/hadamard.h"

#include "kernels/cpu/simd/functions.h"

typedef float four __attribute__((vector_size(16)));

/* Sums of four, less one of them: of vectors of any width. */
#define TURN(V, a, b, c, d)                                                                        \
    do {                                                                                           \
        const V half_ = ((a + b) + (c + d)) * 0.5f, last_ = half_ - a;                             \
        a = half_ - d;                                                                             \
        d = half_ - b; /* for the time being */                                                    \
        b = half_ - c;                                                                             \
        c = d;                                                                                     \
        d = last_;                                                                                 \
    } while (0)

/* What is next to each other comes to stand in one column, and back. */
INLINE void exchange(four r[4])
{
    four a = __builtin_shufflevector(r[0], r[1], 0, 4, 1, 5);
    four b = __builtin_shufflevector(r[2], r[3], 0, 4, 1, 5);
    four c = __builtin_shufflevector(r[0], r[1], 2, 6, 3, 7);
    four d = __builtin_shufflevector(r[2], r[3], 2, 6, 3, 7);
    r[0] = __builtin_shufflevector(a, b, 0, 1, 4, 5);
    r[1] = __builtin_shufflevector(a, b, 2, 3, 6, 7);
    r[2] = __builtin_shufflevector(c, d, 0, 1, 4, 5);
    r[3] = __builtin_shufflevector(c, d, 2, 3, 6, 7);
}

/* Sixteen values: those four apart, then neighbours. */
INLINE void sixteen(float *x)
{
    four r[4];
    memcpy(r, x, sizeof r);
    TURN(four, r[0], r[1], r[2], r[3]);
    exchange(r);
    TURN(four, r[0], r[1], r[2], r[3]);
    exchange(r);
    memcpy(x, r, sizeof r);
}

INLINE void apart_by(float *x, size_t n, size_t apart)
{
    for (size_t at = 0; at < n; at += 4 * apart)
        for (size_t i = at; i < at + apart; i += VL) {
            vf a = vf_load(x + i), b = vf_load(x + i + apart), c = vf_load(x + i + 2 * apart),
               d = vf_load(x + i + 3 * apart);
            TURN(vf, a, b, c, d);
            vf_store(x + i, a);
            vf_store(x + i + apart, b);
            vf_store(x + i + 2 * apart, c);
            vf_store(x + i + 3 * apart, d);
        }
}

void SIMD(hadamard)(const void *x, graft_dtype xt, size_t group, float *y, size_t n)
{
    SIMD(act)(GRAFT_ACT_NONE, x, xt, y, GRAFT_F32, n);
    if (group < 16) {
        graft_hadamard(y, (int64_t)n, (int64_t)group);
        return;
    }
    for (size_t at = 0; at < n; at += group) {
        for (size_t apart = group / 4; apart >= 16; apart /= 4) apart_by(y + at, group, apart);
        for (size_t i = 0; i < group; i += 16) sixteen(y + at + i);
    }
}
