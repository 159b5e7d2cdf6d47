/* Size arithmetic that says when it overflows. All functions: any thread. */
#ifndef GRAFT_BASE_SIZE_H
#define GRAFT_BASE_SIZE_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* *out = a op b; false (and *out unspecified) on overflow. */
static inline bool graft_size_mul(size_t a, size_t b, size_t *out)
{
    return !__builtin_mul_overflow(a, b, out);
}
static inline bool graft_size_add(size_t a, size_t b, size_t *out)
{
    return !__builtin_add_overflow(a, b, out);
}
/* Rounds up to a multiple of `to`, a power of two; false on overflow. */
static inline bool graft_size_round_up(size_t n, size_t to, size_t *out)
{
    size_t t;
    if (!graft_size_add(n, to - 1, &t)) return false;
    *out = t & ~(to - 1);
    return true;
}
/* *out = product of dim[0..rank); false if any is negative or the product leaves int64_t. */
static inline bool graft_size_product(const int64_t *dim, int rank, int64_t *out)
{
    int64_t n = 1;
    for (int i = 0; i < rank; i++)
        if (dim[i] < 0 || __builtin_mul_overflow(n, dim[i], &n)) return false;
    *out = n;
    return true;
}
/* Whole MiB (2^20 bytes) that hold so many bytes: what `_mb` fields and variables count. */
static inline uint64_t graft_size_mib(uint64_t bytes)
{
    return (bytes >> 20) + ((bytes & ((1u << 20) - 1)) != 0);
}
#endif
