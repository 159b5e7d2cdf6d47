/* The choice among the tables. */
#include <stdbool.h>
#include <string.h>
#if defined(GRAFT_CPU_TILES)
#include <sys/syscall.h>
#include <unistd.h>
#endif

#include "kernels/cpu/simd/level.h"
#include "kernels/cpu/simd/simd.h"

/* Those that were compiled, by level: GRAFT_CPU_LEVEL is the last one's. */
extern const graft_cpu_simd graft_cpu_table__plain, graft_cpu_table__neon, graft_cpu_table__avx2,
    graft_cpu_table__avx512, graft_cpu_table__avx512_bf16;

static const graft_cpu_simd *const tables[] = {
    &graft_cpu_table__plain,
#if defined(__aarch64__)
    &graft_cpu_table__neon,
#endif
#if defined(__x86_64__) && GRAFT_CPU_LEVEL >= 1
    &graft_cpu_table__avx2,
#endif
#if defined(__x86_64__) && GRAFT_CPU_LEVEL >= 2
    &graft_cpu_table__avx512,
#endif
#if defined(__x86_64__) && GRAFT_CPU_LEVEL >= 3
    &graft_cpu_table__avx512_bf16,
#endif
};

/* AVX2's with AVX-VNNI, which is no level: processors with AVX-512 need not have it. */
static const graft_cpu_simd *with_bytes(void)
{
#if defined(GRAFT_CPU_BYTES)
    extern const graft_cpu_simd graft_cpu_table__avx_vnni;
    if (graft_cpu_level() >= 1 && graft_cpu_level_bytes()) return &graft_cpu_table__avx_vnni;
#endif
    return NULL;
}

const graft_cpu_simd *graft_cpu_simd_best(const char *wanted)
{
    const int count = sizeof tables / sizeof *tables;
    const graft_cpu_simd *bytes = with_bytes();
    int level = graft_cpu_level();
    if (level >= count) level = count - 1;
    if (wanted && *wanted) { /* one that the user asked for, if it is not above */
        if (bytes && strcmp(bytes->name, wanted) == 0) return bytes;
        while (level > 0 && strcmp(tables[level]->name, wanted) != 0) level--;
        return tables[level];
    }
    return bytes && level == 1 ? bytes : tables[level];
}

bool graft_cpu_tiles_allowed(void)
{
#if defined(GRAFT_CPU_TILES)
    enum { REQUEST = 0x1023, TILE_DATA = 18 }; /* ARCH_REQ_XCOMP_PERM of Linux 5.16 */
    return graft_cpu_level_tiles() && syscall(SYS_arch_prctl, REQUEST, TILE_DATA) == 0;
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
    if (!__builtin_cpu_supports("avx2")) return "no vectors";
    return graft_cpu_level_bytes() ? "AVX2, VNNI" : "AVX2";
#elif defined(__aarch64__)
    return "NEON";
#else
    return "no vectors";
#endif
}
