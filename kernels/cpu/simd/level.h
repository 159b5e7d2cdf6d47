/* What this processor can run of what simd/ is compiled for. */
#ifndef GRAFT_KERNELS_CPU_SIMD_LEVEL_H
#define GRAFT_KERNELS_CPU_SIMD_LEVEL_H

#include <stdbool.h>
#if defined(__x86_64__)
#include <cpuid.h>
#endif

/* The highest GRAFT_ISA_LEVEL that runs here; on AArch64 1 stands for NEON. */
static inline int graft_cpu_level(void)
{
#if defined(__x86_64__)
    if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma")) return 0;
    if (!__builtin_cpu_supports("avx512f") || !__builtin_cpu_supports("avx512bw") ||
        !__builtin_cpu_supports("avx512dq") || !__builtin_cpu_supports("avx512vl"))
        return 1;
    return __builtin_cpu_supports("avx512bf16") && __builtin_cpu_supports("avx512vnni") ? 3 : 2;
#elif defined(__aarch64__)
    return 1; /* all of these processors have it */
#else
    return 0;
#endif
}

/* Whether it has AVX-VNNI: a product of bytes in 256 bits, beside AVX2. */
static inline bool graft_cpu_level_bytes(void)
{
#if defined(__x86_64__)
    unsigned a, b, c, d;
    return __get_cpuid_count(7, 1, &a, &b, &c, &d) && (a & 1u << 4) != 0;
#else
    return false;
#endif
}

/* Whether it has AMX's matrix instructions, for bfloat16 and int8; the system may still refuse. */
static inline bool graft_cpu_level_tiles(void)
{
#if defined(__x86_64__)
    const unsigned wanted = 1u << 22 | 1u << 24 | 1u << 25; /* bf16, the registers, int8 */
    unsigned a, b, c, d;
    return __get_cpuid_count(7, 0, &a, &b, &c, &d) && (d & wanted) == wanted;
#else
    return false;
#endif
}

#endif
