#include "base/hash.h"

#include <stdio.h>

#include "base/hash_wide.h"

#define XXH_INLINE_ALL
#define XXH_FORCE_MEMORY_ACCESS 1
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

_Static_assert(sizeof(graft_hasher) >= sizeof(XXH3_state_t), "a hasher holds XXH3's state");
_Static_assert(_Alignof(graft_hasher) >= _Alignof(XXH3_state_t), "where that may lie");

static XXH3_state_t *state_of(graft_hasher *h)
{
    return (XXH3_state_t *)(void *)h->state;
}

void graft_hasher_init(graft_hasher *h)
{
    XXH3_INITSTATE(state_of(h));
    XXH3_128bits_reset(state_of(h));
}

void graft_hasher_add(graft_hasher *h, const void *data, size_t n)
{
#ifdef GRAFT_HASH_WIDE
    if (__builtin_cpu_supports("avx2")) {
        graft_hash_add_wide(h->state, data, n);
        return;
    }
#endif
    XXH3_128bits_update(state_of(h), data, n);
}

graft_hash graft_hasher_end(const graft_hasher *h)
{
    XXH128_hash_t v = XXH3_128bits_digest((const XXH3_state_t *)(const void *)h->state);
    return (graft_hash){v.low64, v.high64};
}

bool graft_hash_equal(graft_hash a, graft_hash b)
{
    return a.lo == b.lo && a.hi == b.hi;
}

void graft_hash_hex(graft_hash h, char out[33])
{
    snprintf(out, 33, "%016llx%016llx", (unsigned long long)h.hi, (unsigned long long)h.lo);
}
