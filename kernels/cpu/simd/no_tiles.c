/* In place of the sources with matrix instructions where the compiler has none, as for AArch64:
 * graft_cpu_tiles_allowed() says no there, so these are never called. */
#include <assert.h>

#include "kernels/cpu/simd/simd.h"

void graft_cpu_product_tiles(const graft_cpu_product *job, int64_t first, int64_t panels)
{
    (void)job, (void)first, (void)panels;
    assert(!"matrix instructions");
}

void graft_cpu_int8_tiles(const graft_cpu_int8 *job, int64_t first, int64_t panels)
{
    (void)job, (void)first, (void)panels;
    assert(!"matrix instructions");
}

int32_t graft_cpu_attention_tiles_group(int32_t head_dim)
{
    (void)head_dim;
    assert(!"matrix instructions");
    return 0;
}

size_t graft_cpu_attention_tiles_scratch(int32_t head_dim, int64_t keys, int32_t panels)
{
    (void)head_dim, (void)keys, (void)panels;
    assert(!"matrix instructions");
    return 0;
}

void graft_cpu_attention_tiles(const graft_cpu_attention *a, int64_t queries, int64_t first,
                               int32_t panels, void *scratch)
{
    (void)a, (void)queries, (void)first, (void)panels, (void)scratch;
    assert(!"matrix instructions");
}
