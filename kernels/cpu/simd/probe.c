/* What CMakeLists.txt asks of the machine that builds: the status is the level, 4 more with AMX, 8
 * more with AVX's own products of bytes, which oneDNN knows. */
#include "kernels/cpu/simd/level.h"

static bool avx_vnni(void)
{
#if defined(__x86_64__)
    unsigned a, b, c, d;
    return __get_cpuid_count(7, 1, &a, &b, &c, &d) && (a & 1u << 4) != 0;
#else
    return false;
#endif
}

int main(void)
{
    return graft_cpu_level() + (graft_cpu_level_tiles() ? 4 : 0) + (avx_vnni() ? 8 : 0);
}
