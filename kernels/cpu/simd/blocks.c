/* Packed weights to floats. Compiled with nothing contracted: values are the same everywhere. */
#include "kernels/blocks.h"

#include "kernels/cpu/simd/functions.h"

void SIMD(blocks)(const graft_blocks_weight *w, int64_t row, int64_t first, int64_t n, float *y)
{
    graft_blocks_to_f32(w, row, first, n, y);
}
