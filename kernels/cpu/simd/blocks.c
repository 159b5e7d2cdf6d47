/* Blocks of ggml to floats. Compiled with nothing contracted: values are the same everywhere. */
#include "kernels/ggml_blocks.h"

#include "kernels/cpu/simd/functions.h"

void SIMD(blocks)(int32_t type, const void *blocks, int64_t first, int64_t n, float *y)
{
    graft_ggml_to_f32(type, blocks, first, n, y);
}
