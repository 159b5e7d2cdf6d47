#include "base/half.h"

#if defined(__x86_64__)
#include <immintrin.h>
#define GRAFT_HALF_F16C 1
#endif

static float from_bits(uint32_t u)
{
    float f;
    memcpy(&f, &u, sizeof f);
    return f;
}

static uint32_t to_bits(float f)
{
    uint32_t u;
    memcpy(&u, &f, sizeof u);
    return u;
}

/* Signalling NaNs become quiet in both directions, as the F16C instructions do, so that the plain
 * and the vector path agree bit for bit. */
float graft_f16_to_f32(uint16_t h)
{
    uint32_t sign = (uint32_t)(h & 0x8000u) << 16;
    uint32_t exponent = h >> 10 & 0x1f, mantissa = h & 0x3ffu;
    if (exponent == 0x1f)
        return from_bits(sign | 0x7f800000u | (mantissa ? 0x400000u | mantissa << 13 : 0));
    if (exponent) return from_bits(sign | (exponent + 112) << 23 | mantissa << 13);
    float tiny = (float)mantissa * 0x1p-24f; /* exact */
    return sign ? -tiny : tiny;
}

uint16_t graft_f32_to_f16(float f)
{
    uint32_t u = to_bits(f), a = u & 0x7fffffffu;
    uint16_t sign = (uint16_t)(u >> 16 & 0x8000u);
    if (a > 0x7f800000u) return (uint16_t)(sign | 0x7e00u | (a >> 13 & 0x3ffu));
    if (a >= 0x477ff000u) return (uint16_t)(sign | 0x7c00u); /* rounds to 65536 or more */
    if (a >= 0x38800000u) {
        uint32_t r = a - (112u << 23);
        return (uint16_t)(sign | (r + 0xfffu + (r >> 13 & 1)) >> 13);
    }
    if (a < 0x33000000u) return sign; /* under half of the least subnormal */
    uint32_t shift = 126 - (a >> 23), m = (a & 0x7fffffu) | 0x800000u; /* 14-24 bits go */
    uint32_t kept = m >> shift, rest = m & ((1u << shift) - 1), half = 1u << (shift - 1);
    return (uint16_t)(sign | (kept + (rest > half || (rest == half && (kept & 1)))));
}

float graft_f8_e5m2_to_f32(uint8_t v)
{
    return graft_f16_to_f32((uint16_t)(v << 8));
}

static void f16_to_f32_plain(const uint8_t *src, float *dst, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        uint16_t h;
        memcpy(&h, src + 2 * i, sizeof h);
        float f = graft_f16_to_f32(h);
        memcpy((uint8_t *)dst + 4 * i, &f, sizeof f);
    }
}

static void f32_to_f16_plain(const uint8_t *src, uint8_t *dst, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        float f;
        memcpy(&f, src + 4 * i, sizeof f);
        uint16_t h = graft_f32_to_f16(f);
        memcpy(dst + 2 * i, &h, sizeof h);
    }
}

#ifdef GRAFT_HALF_F16C
__attribute__((target("avx2,f16c"))) static size_t f16_to_f32_f16c(const uint8_t *src, float *dst,
                                                                   size_t n)
{
    size_t i = 0;
    for (; i + 8 <= n; i += 8) {
        __m128i h = _mm_loadu_si128((const __m128i *)(const void *)(src + 2 * i));
        _mm256_storeu_ps(dst + i, _mm256_cvtph_ps(h));
    }
    return i;
}

__attribute__((target("avx2,f16c"))) static size_t f32_to_f16_f16c(const float *src, uint8_t *dst,
                                                                   size_t n)
{
    size_t i = 0;
    for (; i + 8 <= n; i += 8) {
        __m128i h = _mm256_cvtps_ph(_mm256_loadu_ps(src + i), _MM_FROUND_TO_NEAREST_INT);
        _mm_storeu_si128((__m128i *)(void *)(dst + 2 * i), h);
    }
    return i;
}

/* What the compiler's start-up code found out; a cpuid of our own would cost a microsecond a call
 * in a virtual machine. Every processor with AVX2 has F16C (clang 14 cannot ask for that one). */
static int use_f16c(void)
{
    return __builtin_cpu_supports("avx2");
}
#endif

void graft_f16_to_f32_array(const void *src, float *dst, size_t n)
{
    size_t done = 0;
#ifdef GRAFT_HALF_F16C
    if (use_f16c()) done = f16_to_f32_f16c(src, dst, n);
#endif
    f16_to_f32_plain((const uint8_t *)src + 2 * done, dst + done, n - done);
}

void graft_f32_to_f16_array(const float *src, void *dst, size_t n)
{
    size_t done = 0;
#ifdef GRAFT_HALF_F16C
    if (use_f16c()) done = f32_to_f16_f16c(src, dst, n);
#endif
    f32_to_f16_plain((const uint8_t *)(src + done), (uint8_t *)dst + 2 * done, n - done);
}

/* The compiler makes vector code of these two by itself. */
void graft_bf16_to_f32_array(const void *src, float *dst, size_t n)
{
    const uint8_t *s = src;
    uint8_t *d = (uint8_t *)dst;
    for (size_t i = 0; i < n; i++) {
        uint16_t h;
        memcpy(&h, s + 2 * i, sizeof h);
        float f = graft_bf16_to_f32(h);
        memcpy(d + 4 * i, &f, sizeof f);
    }
}

void graft_f32_to_bf16_array(const float *src, void *dst, size_t n)
{
    const uint8_t *s = (const uint8_t *)src;
    uint8_t *d = dst;
    /* graft_f32_to_bf16() without its branch, so that compilers make vectors of it. */
    for (size_t i = 0; i < n; i++) {
        uint32_t u;
        memcpy(&u, s + 4 * i, sizeof u);
        uint32_t rounded = (u + 0x7fff + (u >> 16 & 1)) >> 16, nan = u >> 16 | 0x40;
        uint16_t h = (uint16_t)((u & 0x7fffffff) > 0x7f800000 ? nan : rounded);
        memcpy(d + 2 * i, &h, sizeof h);
    }
}
