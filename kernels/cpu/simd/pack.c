/* Weights on their way into oneDNN's blocked layouts: narrowing, pairing, and transposing in
 * registers. The only arithmetic is the rounding to bfloat16 and the sums of levels. */
#include "kernels/cpu/simd/functions.h"

#define SLICE 512

/* base/half.h's rounding; -O3 makes vectors of it in this file. */
static void narrow_f32(const void *x, uint16_t *y, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        uint32_t u;
        memcpy(&u, (const uint8_t *)x + 4 * i, sizeof u);
        uint32_t rounded = (u + 0x7fff + (u >> 16 & 1)) >> 16, nan = u >> 16 | 0x40;
        y[i] = (uint16_t)((u & 0x7fffffff) > 0x7f800000 ? nan : rounded);
    }
}

/* float16 has no value that is subnormal in float32, so that the instruction, which takes those for
 * 0, rounds as base/half.h does. */
static size_t narrow_f16_wide(const void *x, uint16_t *y, size_t n)
{
    size_t i = 0;
#if GRAFT_ISA_LEVEL >= 3
    for (; i + 32 <= n; i += 32) {
        const uint16_t *from = (const uint16_t *)x + i;
        __m512 low = _mm512_cvtph_ps(_mm256_loadu_si256((const void *)from));
        __m512 high = _mm512_cvtph_ps(_mm256_loadu_si256((const void *)(from + 16)));
        __m512bh both = _mm512_cvtne2ps_pbh(high, low);
        memcpy(y + i, &both, sizeof both);
    }
#else
    (void)x;
    (void)y;
    (void)n;
#endif
    return i;
}

void SIMD(narrow)(const void *x, graft_dtype xt, uint16_t *y, size_t n)
{
    float slice[SLICE];
    if (xt == GRAFT_F32) {
        narrow_f32(x, y, n);
        return;
    }
    for (size_t i = narrow_f16_wide(x, y, n); i < n; i += SLICE) {
        size_t count = n - i < SLICE ? n - i : SLICE;
        graft_f16_to_f32_array((const uint16_t *)x + i, slice, count);
        narrow_f32(slice, y + i, count);
    }
}

/* ------------------------------------------------------------------ pairs */

#if GRAFT_ISA_LEVEL >= 2
#define TAPS  9            /* of the convolutions that matter */
#define WORDS (2 * TAPS)   /* of a pair */
#define ALL   (16 * WORDS) /* nine vectors of the result, sixteen pairs */

/* The thirty-two words of vector v of the result lie within the sixty-four from BEGIN(v) on. */
#define BEGIN(v)   (32 * (v) / WORDS * WORDS < ALL - 64 ? 32 * (v) / WORDS * WORDS : ALL - 64)
#define SOURCE(w)  ((w) / WORDS * WORDS + (w) % WORDS / 2 + (w) % 2 * TAPS)
#define AT(v, k)   (uint16_t)(SOURCE(32 * (v) + (k)) - BEGIN(v))
#define AT4(v, k)  AT(v, k), AT(v, k + 1), AT(v, k + 2), AT(v, k + 3)
#define AT16(v, k) AT4(v, k), AT4(v, k + 4), AT4(v, k + 8), AT4(v, k + 12)
#define VECTOR(v)                                                                                  \
    {                                                                                              \
        AT16(v, 0), AT16(v, 16)                                                                    \
    }

/* Sixteen pairs at a time, one permutation for a vector. */
static size_t pair_nine(const uint16_t *x, uint32_t *y, size_t pairs)
{
    static const uint16_t place[TAPS][32] = {VECTOR(0), VECTOR(1), VECTOR(2), VECTOR(3), VECTOR(4),
                                             VECTOR(5), VECTOR(6), VECTOR(7), VECTOR(8)};
    size_t done = 0;
    for (; done + 16 <= pairs; done += 16) {
        const uint16_t *from = x + done * WORDS;
        uint32_t *to = y + done * TAPS;
#pragma GCC unroll 9
        for (size_t v = 0; v < TAPS; v++) {
            __m512i low = _mm512_loadu_si512(from + BEGIN(v));
            __m512i high = _mm512_loadu_si512(from + BEGIN(v) + 32);
            __m512i at = _mm512_loadu_si512(place[v]);
            _mm512_storeu_si512(to + 16 * v, _mm512_permutex2var_epi16(low, at, high));
        }
    }
    return done;
}
#endif

void SIMD(pair)(const uint16_t *x, uint32_t *y, size_t pairs, size_t taps)
{
    size_t i = 0;
#if GRAFT_ISA_LEVEL >= 2
    if (taps == TAPS) i = pair_nine(x, y, pairs);
#endif
    for (; i < pairs; i++)
        for (size_t t = 0; t < taps; t++)
            y[i * taps + t] = x[2 * i * taps + t] | (uint32_t)x[(2 * i + 1) * taps + t] << 16;
}

/* ------------------------------------------------------------------ quads */

#if GRAFT_ISA_LEVEL >= 1
/* Byte 4t + j of a result is byte 9j + t of the four rows. Each is in one of two vectors, the
 * other's index of which has its upper bit set: that gives 0. */
#define QUAD(begin, t, j)                                                                          \
    (char)(9 * (j) + (t) - (begin) >= 0 && 9 * (j) + (t) - (begin) < 16 ? 9 * (j) + (t) - (begin)  \
                                                                        : -1)
#define QUAD4(begin, t) QUAD(begin, t, 0), QUAD(begin, t, 1), QUAD(begin, t, 2), QUAD(begin, t, 3)
#define QUADS(begin, t)                                                                            \
    QUAD4(begin, t), QUAD4(begin, (t) + 1), QUAD4(begin, (t) + 2), QUAD4(begin, (t) + 3)

/* Taps t to t + 3 from the vectors that begin at bytes `low` and low + 16. */
#define FOUR_TAPS(x, low, t)                                                                       \
    _mm_or_si128(_mm_shuffle_epi8(_mm_loadu_si128((const void *)((x) + (low))),                    \
                                  _mm_setr_epi8(QUADS(low, t))),                                   \
                 _mm_shuffle_epi8(_mm_loadu_si128((const void *)((x) + (low) + 16)),               \
                                  _mm_setr_epi8(QUADS((low) + 16, t))))

static void quad_nine(const int8_t *x, uint32_t *y, size_t quads)
{
    for (size_t i = 0; i < quads; i++, x += 36, y += 9) {
        const int8_t last[4] = {x[8], x[17], x[26], x[35]};
        _mm_storeu_si128((void *)y, FOUR_TAPS(x, 0, 0));
        _mm_storeu_si128((void *)(y + 4), FOUR_TAPS(x, 4, 4));
        memcpy(y + 8, last, sizeof last);
    }
}
#endif

void SIMD(quad)(const int8_t *x, uint32_t *y, size_t quads, size_t taps)
{
#if GRAFT_ISA_LEVEL >= 1
    if (taps == 9) {
        quad_nine(x, y, quads);
        return;
    }
#endif
    for (size_t i = 0; i < quads; i++, x += 4 * taps)
        for (size_t t = 0; t < taps; t++) {
            const int8_t four[4] = {x[t], x[taps + t], x[2 * taps + t], x[3 * taps + t]};
            memcpy(y++, four, sizeof four);
        }
}

int32_t SIMD(sum_s8)(const int8_t *x, size_t n)
{
    int32_t sum = 0;
    for (size_t i = 0; i < n; i++) sum += x[i];
    return sum;
}

/* ------------------------------------------------------------------ lines */

static void lines_plain(const char *x, size_t stride, size_t rows, bool apart, size_t first,
                        size_t n, const int64_t *at, char *y)
{
    for (size_t k = first; k < n; k++)
        for (size_t r = 0; r < rows; r++) {
            const char *from = x + r * stride + 4 * k;
            char *to = y + at[k];
            if (apart) {
                memcpy(to + 2 * r, from, 2);
                memcpy(to + 2 * (rows + r), from + 2, 2);
            } else {
                memcpy(to + 4 * r, from, 4);
            }
        }
}

/* Lines go past the caches: nobody reads packed weights soon, and memory that is written a line at
 * a time need not be read before. */
#if GRAFT_ISA_LEVEL >= 1
/* Eight rows of eight units. */
INLINE void block8(const char *x, size_t stride, __m256i out[8])
{
    __m256i a[8], b[8];
#pragma GCC unroll 8
    for (int r = 0; r < 8; r++) a[r] = _mm256_loadu_si256((const void *)(x + (size_t)r * stride));
#pragma GCC unroll 4
    for (int r = 0; r < 8; r += 2) { /* units 0, 1 of each lane; units 2, 3 */
        b[r] = _mm256_unpacklo_epi32(a[r], a[r + 1]);
        b[r + 1] = _mm256_unpackhi_epi32(a[r], a[r + 1]);
    }
#pragma GCC unroll 2
    for (int r = 0; r < 8; r += 4) { /* one unit of four rows in each lane */
        a[r] = _mm256_unpacklo_epi64(b[r], b[r + 2]);
        a[r + 1] = _mm256_unpackhi_epi64(b[r], b[r + 2]);
        a[r + 2] = _mm256_unpacklo_epi64(b[r + 1], b[r + 3]);
        a[r + 3] = _mm256_unpackhi_epi64(b[r + 1], b[r + 3]);
    }
#pragma GCC unroll 4
    for (int u = 0; u < 4; u++) {
        out[u] = _mm256_permute2x128_si256(a[u], a[4 + u], 0x20);
        out[4 + u] = _mm256_permute2x128_si256(a[u], a[4 + u], 0x31);
    }
}

static size_t lines_by_8(const char *x, size_t stride, size_t rows, size_t n, const int64_t *at,
                         char *y)
{
    size_t k = 0;
    for (; k + 8 <= n; k += 8) {
        for (size_t r = 0; r < rows; r += 8) {
            __m256i line[8];
            block8(x + r * stride + 4 * k, stride, line);
#pragma GCC unroll 8
            for (int i = 0; i < 8; i++)
                _mm256_stream_si256((void *)(y + at[k + (size_t)i] + 4 * r), line[i]);
        }
    }
    return k;
}
#elif GRAFT_ISA_NEON
static size_t lines_by_4(const char *x, size_t stride, size_t rows, size_t n, const int64_t *at,
                         char *y)
{
    size_t k = 0;
    for (; k + 4 <= n; k += 4) {
        for (size_t r = 0; r < rows; r += 4) {
            vf unit[4];
#pragma GCC unroll 4
            for (size_t i = 0; i < 4; i++)
                memcpy(&unit[i], x + (r + i) * stride + 4 * k, sizeof unit[i]);
            vf_transpose(unit);
#pragma GCC unroll 4
            for (size_t i = 0; i < 4; i++) memcpy(y + at[k + i] + 4 * r, &unit[i], sizeof unit[i]);
        }
    }
    return k;
}
#endif

#if GRAFT_ISA_LEVEL >= 2
#define LOW_LANES(a, b)  _mm512_shuffle_i32x4(a, b, 0x88)
#define HIGH_LANES(a, b) _mm512_shuffle_i32x4(a, b, 0xdd)

/* Sixteen rows of sixteen units, as above with two steps for the lanes. */
INLINE void block16(const char *x, size_t stride, __m512i out[16])
{
    __m512i a[16], b[16];
#pragma GCC unroll 16
    for (int r = 0; r < 16; r++) a[r] = _mm512_loadu_si512(x + (size_t)r * stride);
#pragma GCC unroll 8
    for (int r = 0; r < 16; r += 2) {
        b[r] = _mm512_unpacklo_epi32(a[r], a[r + 1]);
        b[r + 1] = _mm512_unpackhi_epi32(a[r], a[r + 1]);
    }
#pragma GCC unroll 4
    for (int r = 0; r < 16; r += 4) {
        a[r] = _mm512_unpacklo_epi64(b[r], b[r + 2]);
        a[r + 1] = _mm512_unpackhi_epi64(b[r], b[r + 2]);
        a[r + 2] = _mm512_unpacklo_epi64(b[r + 1], b[r + 3]);
        a[r + 3] = _mm512_unpackhi_epi64(b[r + 1], b[r + 3]);
    }
#pragma GCC unroll 4
    for (int u = 0; u < 4; u++) { /* lanes 0, 2 and 1, 3 of rows 0 - 7 and of 8 - 15 */
        b[u] = LOW_LANES(a[u], a[4 + u]);
        b[4 + u] = HIGH_LANES(a[u], a[4 + u]);
        b[8 + u] = LOW_LANES(a[8 + u], a[12 + u]);
        b[12 + u] = HIGH_LANES(a[8 + u], a[12 + u]);
    }
#pragma GCC unroll 4
    for (int u = 0; u < 4; u++) {
        out[u] = LOW_LANES(b[u], b[8 + u]);
        out[4 + u] = LOW_LANES(b[4 + u], b[12 + u]);
        out[8 + u] = HIGH_LANES(b[u], b[8 + u]);
        out[12 + u] = HIGH_LANES(b[4 + u], b[12 + u]);
    }
}

static size_t lines_by_16(const char *x, size_t stride, bool apart, size_t n, const int64_t *at,
                          char *y)
{
    static const uint16_t halves[32] = {0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30,
                                        1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31};
    const __m512i order = _mm512_loadu_si512(halves);
    size_t k = 0;
    for (; k + 16 <= n; k += 16) {
        __m512i line[16];
        block16(x + 4 * k, stride, line);
        if (apart) {
#pragma GCC unroll 16
            for (int i = 0; i < 16; i++) line[i] = _mm512_permutexvar_epi16(order, line[i]);
        }
#pragma GCC unroll 16
        for (int i = 0; i < 16; i++) _mm512_stream_si512((void *)(y + at[k + (size_t)i]), line[i]);
    }
    return k;
}
#endif

void SIMD(lines)(const void *x, size_t stride, size_t rows, bool apart, size_t n, const int64_t *at,
                 void *y)
{
    size_t done = 0;
#if GRAFT_ISA_LEVEL >= 2
    if (rows == 16) done = lines_by_16(x, stride, apart, n, at, y);
#endif
#if GRAFT_ISA_LEVEL >= 1
    if (!apart)
        done += lines_by_8((const char *)x + 4 * done, stride, rows, n - done, at + done, y);
#elif GRAFT_ISA_NEON
    if (!apart) done = lines_by_4(x, stride, rows, n, at, y);
#endif
    lines_plain(x, stride, rows, apart, done, n, at, y);
}

void SIMD(drain)(void)
{
#if GRAFT_ISA_LEVEL >= 1
    _mm_sfence();
#endif
}
