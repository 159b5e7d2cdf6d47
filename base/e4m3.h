/* E4M3FN of OCP OFP8 as bits of float32: sign, four bits of exponent, three of mantissa; no
 * infinity, at most 448, NaN is 0x7f and 0xff. For the device kernels, too. */
#ifndef GRAFT_BASE_E4M3_H
#define GRAFT_BASE_E4M3_H
#include <stdint.h>

#if defined(__CUDACC__)
#define GRAFT_E4M3_INLINE static __device__ __forceinline__
#else
#define GRAFT_E4M3_INLINE static inline
#endif

#define GRAFT_E4M3_MOST 448.0f

GRAFT_E4M3_INLINE uint32_t graft_e4m3_to_bits(uint8_t v)
{
    uint32_t sign = (uint32_t)(v & 0x80u) << 24, code = v & 0x7fu;
    if (code == 0x7f) return sign | 0x7fc00000u;
    if (code >= 8) return sign | ((code << 20) + 0x3c000000u);
    if (code == 0) return sign;
    uint32_t top = code >= 4 ? 2 : code >= 2 ? 1 : 0; /* code * 2^-9 */
    return sign | (118 + top) << 23 | (code << (23 - top) & 0x7fffffu);
}

/* To the nearest, ties to even; what is larger than 448 becomes 448. */
GRAFT_E4M3_INLINE uint8_t graft_e4m3_from_bits(uint32_t u)
{
    uint32_t sign = u >> 24 & 0x80u, a = u & 0x7fffffffu, code;
    if (a > 0x7f800000u) return (uint8_t)(sign | 0x7f);
    if (a >= 0x43e00000u) return (uint8_t)(sign | 0x7e);
    if (a >= 0x3c800000u) { /* 2^-6, the least that is normal */
        uint32_t r = a - 0x3c000000u;
        code = (r + 0x7ffffu + (r >> 20 & 1)) >> 20;
    } else if (a <= 0x3a800000u) { /* half of the least, or below */
        code = 0;
    } else {
        uint32_t shift = 141 - (a >> 23), m = (a & 0x7fffffu) | 0x800000u;
        uint32_t rest = m & ((1u << shift) - 1), half = 1u << (shift - 1);
        code = m >> shift;
        code += rest > half || (rest == half && (code & 1));
    }
    return (uint8_t)(sign | code);
}
#endif
