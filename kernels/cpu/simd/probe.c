/* What CMakeLists.txt asks of the machine that builds: the status is the level, 4 more with AMX, 8
 * more with AVX-VNNI. */
#include "kernels/cpu/simd/level.h"

int main(void)
{
    return graft_cpu_level() + (graft_cpu_level_tiles() ? 4 : 0) +
           (graft_cpu_level_bytes() ? 8 : 0);
}
