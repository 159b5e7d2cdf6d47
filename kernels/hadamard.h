/* The regular Hadamard transform (Huang et al. 2025, arXiv:2512.03673, equation 9), which spreads
 * what stands out in a row over its neighbours, so that a row of levels loses less of the others.
 *
 * H of size 4^k is the k-fold Kronecker product of
 *
 *     1/2 *  1  1  1 -1
 *            1  1 -1  1
 *            1 -1  1  1
 *           -1  1  1  1
 *
 * It is symmetric and its own inverse: (x H)(w H)^T is x w^T. LINEAR with groups g (ops.def)
 * multiplies a row of x, each g values of it by themselves, by H before it quantizes it; its
 * weights come like that already. Pure, any thread. */
#ifndef GRAFT_KERNELS_HADAMARD_H
#define GRAFT_KERNELS_HADAMARD_H
#include <stdint.h>

#define GRAFT_HADAMARD_MOST 4096 /* values of a group */

/* Whether rows of n values can be turned in groups of so many. */
static inline int graft_hadamard_is(int64_t group, int64_t n)
{
    int64_t g = 4;
    while (g < group) g *= 4;
    return g == group && group <= GRAFT_HADAMARD_MOST && n % group == 0;
}

/* The product with H/2 of four values that stand `apart`. */
static inline void graft_hadamard_four(float *x, int64_t apart)
{
    float half = 0.5f * ((x[0] + x[apart]) + (x[2 * apart] + x[3 * apart]));
    float a = half - x[3 * apart], b = half - x[2 * apart], c = half - x[apart], d = half - x[0];
    x[0] = a;
    x[apart] = b;
    x[2 * apart] = c;
    x[3 * apart] = d;
}

/* Each `group` of n values, in place. All libraries compute in this order, the widest apart first,
 * and so to the same bits. */
static inline void graft_hadamard(float *x, int64_t n, int64_t group)
{
    for (int64_t apart = group / 4; apart > 0; apart /= 4)
        for (int64_t at = 0; at < n; at += 4 * apart)
            for (int64_t i = 0; i < apart; i++) graft_hadamard_four(x + at + i, apart);
}
#endif
