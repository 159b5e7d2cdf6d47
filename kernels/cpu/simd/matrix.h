/* AMX's registers: eight of 16 rows of 64 bytes (Intel's architecture manual, 18, palette 1). */
#ifndef GRAFT_KERNELS_CPU_SIMD_MATRIX_H
#define GRAFT_KERNELS_CPU_SIMD_MATRIX_H
#include "kernels/cpu/simd/functions.h"

typedef struct matrix_shapes {
    uint8_t palette, start_row, zero[14];
    uint16_t bytes[16];
    uint8_t rows[16];
} __attribute__((aligned(64))) matrix_shapes;

/* All registers whole; *others is for matrix_end(): oneDNN may have its own on this thread. */
static inline void matrix_begin(matrix_shapes *others)
{
    static const matrix_shapes whole = {.palette = 1,
                                        .bytes = {64, 64, 64, 64, 64, 64, 64, 64},
                                        .rows = {16, 16, 16, 16, 16, 16, 16, 16}};
    _tile_storeconfig(others);
    _tile_loadconfig(&whole);
}

/* gcc's tile loads do not tell the compiler that they read memory: what was stored by other
 * instructions of the same function is there behind this. */
static inline void matrix_sees_stores(void)
{
    __asm__ volatile("" ::: "memory");
}

static inline void matrix_end(const matrix_shapes *others)
{
    if (others->palette)
        _tile_loadconfig(others);
    else
        _tile_release();
}
#endif
