/* The choice among the tables. */
#include "kernels/cpu/simd/simd.h"

#if defined(__x86_64__)
extern const graft_cpu_simd graft_cpu_table__avx2, graft_cpu_table__avx512,
    graft_cpu_table__avx512_bf16;
#endif
extern const graft_cpu_simd graft_cpu_table__plain;

const graft_cpu_simd *graft_cpu_simd_best(void)
{
#if defined(__x86_64__)
    int avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    int avx512 = avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                 __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
    if (avx512 && __builtin_cpu_supports("avx512bf16")) return &graft_cpu_table__avx512_bf16;
    if (avx512) return &graft_cpu_table__avx512;
    if (avx2) return &graft_cpu_table__avx2;
#endif
    return &graft_cpu_table__plain;
}
