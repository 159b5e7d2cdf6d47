#include "base/hash.h"

#include <stdio.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

uint64_t graft_hash64(const void *data, size_t n)
{
    return XXH3_64bits(data, n);
}

graft_hash graft_hash128(const void *data, size_t n)
{
    XXH128_hash_t h = XXH3_128bits(data, n);
    return (graft_hash){h.low64, h.high64};
}

graft_hash graft_hash_mix(graft_hash h, const void *data, size_t n)
{
    graft_hash part = graft_hash128(data, n);
    uint64_t all[5] = {h.lo, h.hi, part.lo, part.hi, n};
    return graft_hash128(all, sizeof all);
}

bool graft_hash_equal(graft_hash a, graft_hash b)
{
    return a.lo == b.lo && a.hi == b.hi;
}

void graft_hash_hex(graft_hash h, char out[33])
{
    snprintf(out, 33, "%016llx%016llx", (unsigned long long)h.hi, (unsigned long long)h.lo);
}
