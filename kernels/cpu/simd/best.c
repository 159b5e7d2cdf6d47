/* The choice among the tables. */
#include <stdbool.h>
#include <string.h>
#if defined(GRAFT_CPU_TILES)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

#include "kernels/cpu/simd/simd.h"

#if defined(__x86_64__)
extern const graft_cpu_simd graft_cpu_table__avx2, graft_cpu_table__avx512,
    graft_cpu_table__avx512_bf16;
#elif defined(__aarch64__)
extern const graft_cpu_simd graft_cpu_table__neon;
#endif
extern const graft_cpu_simd graft_cpu_table__plain;

/* `t`, unless the user asked for another one that is not above it. */
static const graft_cpu_simd *allowed(const graft_cpu_simd *t, const char *wanted)
{
    return !wanted || !*wanted || strcmp(t->name, wanted) == 0 ? t : NULL;
}

const graft_cpu_simd *graft_cpu_simd_best(const char *wanted)
{
    const graft_cpu_simd *t = NULL;
#if defined(__x86_64__)
    int avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    int avx512 = avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                 __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
    if (avx512 && __builtin_cpu_supports("avx512bf16") && __builtin_cpu_supports("avx512vnni"))
        t = allowed(&graft_cpu_table__avx512_bf16, wanted);
    if (!t && avx512) t = allowed(&graft_cpu_table__avx512, wanted);
    if (!t && avx2) t = allowed(&graft_cpu_table__avx2, wanted);
#elif defined(__aarch64__)
    t = allowed(&graft_cpu_table__neon, wanted); /* all of these processors have it */
#else
    (void)allowed;
    (void)wanted;
#endif
    return t ? t : &graft_cpu_table__plain;
}

bool graft_cpu_tiles_allowed(void)
{
#if defined(GRAFT_CPU_TILES)
    enum { REQUEST = 0x1023, TILE_DATA = 18 };              /* ARCH_REQ_XCOMP_PERM of Linux 5.16 */
    const unsigned wanted = 1u << 22 | 1u << 24 | 1u << 25; /* bf16, the registers, int8 */
    unsigned a, b, c, d;
    if (!__get_cpuid_count(7, 0, &a, &b, &c, &d) || (d & wanted) != wanted) return false;
    return syscall(SYS_arch_prctl, REQUEST, TILE_DATA) == 0;
#else
    return false;
#endif
}

const char *graft_cpu_simd_features(void)
{
#if defined(__x86_64__)
    bool vnni = __builtin_cpu_supports("avx512vnni");
    if (__builtin_cpu_supports("avx512bf16")) return vnni ? "AVX-512, VNNI, BF16" : "AVX-512, BF16";
    if (__builtin_cpu_supports("avx512f")) return vnni ? "AVX-512, VNNI" : "AVX-512";
    return __builtin_cpu_supports("avx2") ? "AVX2" : "no vectors";
#elif defined(__aarch64__)
    return "NEON";
#else
    return "no vectors";
#endif
}
