/* int8 LINEAR with VNNI instructions. A tile is ROWS rows by a panel of outputs, whose sums stay in
 * registers over all inputs. Products keep one pipe busy in every cycle, so all else must go on
 * beside them: what becomes of a tile's sums is computed while the products of the next tile are
 * under way. */
#include <float.h>

#include "kernels/cpu/simd/tile.h"

#if GRAFT_ISA_LEVEL >= 3

#define ROWS  GRAFT_CPU_INT8_ROWS
#define STEPS 3 /* in which a tile is computed; each ends with a jump that nobody foresees */
#include "kernels/cpu/simd/int8_finish.h"

/* A macro, since compilers copy sums to and fro when the instruction is a function. */
#define DOT(sum, x, w) __asm__("vpdpbusd %2, %1, %0" : "+v"(sum) : "v"(x), "v"(w))

INLINE __m512i quad(const uint8_t *p)
{
    int32_t four;
    memcpy(&four, p, sizeof four);
    return _mm512_set1_epi32(four);
}

/* Sums of a tile to `now`; meanwhile `before`, if any, is finished. */
INLINE void tile(const graft_cpu_int8 *job, const int8_t *w, const int32_t *start, waiting *now,
                 const waiting *before, ending how, stream soon[2])
{
    __m512i sum[ROWS][PV];
    const uint8_t *x[ROWS / 3];
    int64_t s = job->stride;
#pragma GCC unroll 4
    for (int i = 0; i < ROWS / 3; i++) x[i] = job->level + (now->row + 3 * i) * s;
#pragma GCC unroll 16
    for (int r = 0; r < ROWS; r++)
#pragma GCC unroll 2
        for (int v = 0; v < PV; v++) sum[r][v] = _mm512_load_si512(start + v * VL);
    int64_t i = 0, quads = job->quads;
#pragma GCC unroll 1
    for (int row = 0; row < ROWS; row += ROWS / STEPS) {
#pragma GCC unroll 1
        for (int64_t until = quads * (row + ROWS / STEPS) / ROWS; i < until;
             i++, w += 4 * PV * VL) {
            __m512i b[PV];
#pragma GCC unroll 2
            for (int v = 0; v < PV; v++) b[v] = _mm512_load_si512(w + 4 * v * VL);
#pragma GCC unroll 16
            for (int r = 0; r < ROWS; r++) {
                __m512i a = quad(x[r / 3] + r % 3 * s + 4 * i);
#pragma GCC unroll 2
                for (int v = 0; v < PV; v++) DOT(sum[r][v], a, b[v]);
            }
        }
        fetch(&soon[0]);
        fetch(&soon[1]);
        for (int r = row; r < row + ROWS / STEPS; r++) {
            fetch_row(now, job, r);
            if (before) finish(before, job, r, how);
        }
    }
#pragma GCC unroll 16
    for (int r = 0; r < ROWS; r++)
#pragma GCC unroll 2
        for (int v = 0; v < PV; v++)
            vf_store_halves((float *)now->sum + (r * PV + v) * VL, (vf)sum[r][v]);
}

void SIMD(int8_multiply)(const graft_cpu_int8 *job, int64_t first, int64_t panels)
{
    panel both[2];
    waiting t[2];
    const waiting *before = NULL;
    ending how = ending_of(job);
    int64_t steps = (job->rows + ROWS - 1) / ROWS * STEPS, size = PV * VL * 4 * job->quads;
    stream soon[2] = {stream_of(job->ahead, job->ahead_bytes, steps * panels)};
    int turn = 0;
    for (int64_t p = first; p < first + panels; p++) {
        const int8_t *w = job->weight + p * size;
        const int32_t *start = job->start + p * PV * VL;
        panel *own = &both[p & 1];
        open_panel(own, job, p);
        soon[1] =
            stream_of(p + 1 < first + panels ? w + size : job->weight + first * size, size, steps);
        for (int64_t row = 0; row < job->rows; row += ROWS, turn ^= 1) {
            waiting *now = &t[turn];
            now->panel = own;
            now->row = row;
            now->rows = job->rows - row < ROWS ? job->rows - row : ROWS;
            if (before && how == GENERAL) finish_all(before, job, how);
            if (!before || how == GENERAL)
                tile(job, w, start, now, NULL, PLAIN, soon);
            else if (how == PLAIN)
                tile(job, w, start, now, before, PLAIN, soon);
            else if (how == GEGLU_BF16)
                tile(job, w, start, now, before, GEGLU_BF16, soon);
            else
                tile(job, w, start, now, before, TANH_BF16, soon);
            before = now;
        }
    }
    if (before) finish_all(before, job, how);
}

/* ------------------------------------------------------------------ levels */

/* 1.5 * 2^23 + 128: what is added to it is rounded, and its last byte is the level. */
#define ROUND_LEVEL 12583040.0f

/* Rounded like quant.h's product: not joined with the addition that follows. */
INLINE __m512i level_of(__m512i x, vf inverse)
{
    __m512 v = _mm512_mul_round_ps((__m512)x, (__m512)inverse,
                                   _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    return (__m512i)((vf)v + vf_set(ROUND_LEVEL));
}

/* Thirty-two values, neighbours in one word: the lower half of each of the result's. */
INLINE __m512i two_levels(__m512i x, vf inverse)
{
    __m512i even = level_of(_mm512_slli_epi32(x, 16), inverse);
    __m512i odd = level_of(_mm512_and_si512(x, _mm512_set1_epi32((int)0xffff0000)), inverse);
    return _mm512_ternarylogic_epi32(_mm512_set1_epi32(0xff), even, _mm512_slli_epi32(odd, 8),
                                     0xca);
}

static size_t levels_of_bf16(const uint16_t *x, vf inverse, uint8_t *y, size_t n)
{
    const __m512i order =
        _mm512_set_epi16(31, 29, 27, 25, 23, 21, 19, 17, 15, 13, 11, 9, 7, 5, 3, 1, 30, 28, 26, 24,
                         22, 20, 18, 16, 14, 12, 10, 8, 6, 4, 2, 0);
    size_t i = 0;
    for (; i + 64 <= n; i += 64) {
        __m512i a = two_levels(_mm512_loadu_si512(x + i), inverse);
        __m512i b = _mm512_slli_epi32(two_levels(_mm512_loadu_si512(x + i + 32), inverse), 16);
        a = _mm512_ternarylogic_epi32(_mm512_set1_epi32(0xffff), a, b, 0xca);
        _mm512_storeu_si512(y + i, _mm512_permutexvar_epi16(order, a));
    }
    return i;
}

void SIMD(int8_levels)(const void *x, graft_dtype xt, float inverse, uint8_t *y, size_t n)
{
    size_t i = 0;
    vf v = vf_set(inverse);
    if (xt == GRAFT_BF16 && inverse <= FLT_MAX) /* else products may be too large */
        i = levels_of_bf16(x, v, y, n);
    if (i == n) return;
    SIMD(to_s8)((const char *)x + i * graft_dtype_size(xt), xt, inverse, (int8_t *)y + i, n - i);
    for (; i < n; i++) y[i] ^= 0x80;
}
#endif
