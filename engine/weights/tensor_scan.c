#include "engine/weights/tensor_scan.h"

#include "engine/weights/coded.h"

#include <string.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#define PIECE ((size_t)256 << 10) /* of the hash */

/* True when some of the 16-bit or 32-bit numbers has all bits of `exponent`: infinities, and what
 * is no number. `top` is the highest bit of each, which `exponent` has not: adding the missing bits
 * of the exponent to it carries into that bit wherever one is missing. */
static bool exponent_full_plain(const uint8_t *p, size_t n, uint64_t exponent, uint64_t top)
{
    uint64_t all = ~0ull, v;
    for (; n; p += sizeof v, n -= n < sizeof v ? n : sizeof v) {
        v = 0;
        memcpy(&v, p, n < sizeof v ? n : sizeof v);
        all &= (~v & exponent) + exponent;
    }
    return (all & top) != top;
}

#if defined(__x86_64__)
__attribute__((target("avx2"))) static bool exponent_full_avx2(const uint8_t *p, size_t n,
                                                               uint64_t exponent, uint64_t top)
{
    __m256i all = _mm256_set1_epi8(-1), all2 = all, e = _mm256_set1_epi64x((long long)exponent);
    uint64_t lane[4];
    size_t i = 0;
    for (; i + 64 <= n; i += 64) {
        __m256i a = _mm256_loadu_si256((const void *)(p + i));
        __m256i b = _mm256_loadu_si256((const void *)(p + i + 32));
        all = _mm256_and_si256(all, _mm256_add_epi64(_mm256_andnot_si256(a, e), e));
        all2 = _mm256_and_si256(all2, _mm256_add_epi64(_mm256_andnot_si256(b, e), e));
    }
    all = _mm256_and_si256(all, all2);
    memcpy(lane, &all, sizeof lane);
    return (lane[0] & lane[1] & lane[2] & lane[3] & top) != top ||
           exponent_full_plain(p + i, n - i, exponent, top);
}
#endif

static bool exponent_full(const uint8_t *p, size_t n, uint64_t exponent, uint64_t top)
{
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx2")) return exponent_full_avx2(p, n, exponent, top);
#endif
    return exponent_full_plain(p, n, exponent, top);
}

static bool has_non_finite(graft_dtype t, const void *p, size_t n)
{
    switch (t) {
    case GRAFT_F16:
        return exponent_full(p, n, 0x7c007c007c007c00, 0x8000800080008000);
    case GRAFT_BF16:
        return exponent_full(p, n, 0x7f807f807f807f80, 0x8000800080008000);
    case GRAFT_F32:
        return exponent_full(p, n, 0x7f8000007f800000, 0x8000000080000000);
    default:
        return false;
    }
}

static graft_hash mix_type(graft_hash h, const graft_st_tensor *t, bool few)
{
    h = graft_hash_mix(h, &t->dtype, sizeof t->dtype);
    if (t->coded) h = graft_coded_mix(h, t->coded, few);
    return t->blocks ? graft_hash_mix(h, &t->blocks->id, sizeof t->blocks->id) : h;
}

bool graft_tensor_known(const graft_tensor_state *s)
{
    return atomic_load_explicit(&s->known, memory_order_acquire) == 1;
}

void graft_tensor_scan_begin(graft_tensor_scan *s, graft_tensor_state *state,
                             const graft_st_tensor *t)
{
    s->t = t;
    s->state = state;
    s->done = 0;
    s->non_finite = false;
    s->known = graft_tensor_known(state);
    if (!s->known) graft_hasher_init(&s->hasher);
}

void graft_tensor_scan_to(graft_tensor_scan *s, size_t end)
{
    size_t bytes = (size_t)s->t->bytes;
    while (!s->known && s->done < end && s->done < bytes) {
        const uint8_t *p = (const uint8_t *)s->t->data + s->done;
        size_t n = bytes - s->done < PIECE ? bytes - s->done : PIECE;
        graft_hasher_add(&s->hasher, p, n);
        s->non_finite |= has_non_finite(s->t->dtype, p, n);
        s->done += n;
    }
}

graft_hash graft_tensor_scan_end(graft_tensor_scan *s)
{
    graft_tensor_scan_to(s, (size_t)s->t->bytes);
    if (s->known) return s->state->hash;
    graft_hash h = graft_hasher_end(&s->hasher);
    h = mix_type(h, s->t, false);
    s->non_finite |= s->t->coded && graft_coded_non_finite(s->t->coded);
    /* Two threads may get here; both write the same values, but only one may write. */
    int none = 0;
    if (atomic_compare_exchange_strong(&s->state->known, &none, 2)) {
        s->state->hash = h;
        s->state->non_finite = s->non_finite;
        atomic_store_explicit(&s->state->known, 1, memory_order_release);
    }
    return h;
}

graft_hash graft_tensor_hash(graft_tensor_state *s, const graft_st_tensor *t)
{
    graft_tensor_scan scan;
    graft_tensor_scan_begin(&scan, s, t);
    return graft_tensor_scan_end(&scan);
}

graft_hash graft_tensor_sample(graft_tensor_state *s, const graft_st_tensor *t)
{
    enum { PLACES = 4, EACH = 64 };
    graft_hash h = {atomic_load_explicit(&s->sample, memory_order_relaxed), 0};
    if (h.lo) return h;
    uint8_t some[PLACES * EACH];
    size_t bytes = (size_t)t->bytes;
    if (bytes <= sizeof some) {
        h = graft_hash128(t->data, bytes);
    } else {
        for (size_t i = 0; i < PLACES; i++) {
            size_t at = (bytes - EACH) / (PLACES - 1) * i;
            memcpy(some + i * EACH, (const uint8_t *)t->data + at, EACH);
        }
        h = graft_hash128(some, sizeof some);
    }
    h = graft_hash_mix(h, &t->bytes, sizeof t->bytes);
    h = (graft_hash){mix_type(h, t, true).lo | 1, 0};
    atomic_store_explicit(&s->sample, h.lo, memory_order_relaxed);
    return h;
}
