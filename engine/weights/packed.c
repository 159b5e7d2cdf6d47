#include "engine/weights/packed.h"

#include <string.h>

#include "engine/weights/coded.h"
#include "kernels/blocks.h"

static int32_t float_type(graft_dtype t)
{
    return t == GRAFT_F8_E4M3 ? GRAFT_FLOAT_E4M3 : t == GRAFT_F8_E5M2 ? GRAFT_FLOAT_E5M2 : 0;
}

int32_t graft_packed_type(const graft_st_tensor *t)
{
    if (t->part || t->rank < 2) return 0;
    if (t->blocks) return t->scale == 0 ? (int32_t)t->blocks->id : 0;
    if (!t->coded) return float_type(t->dtype);
    if (!graft_coded_has_blocks(t->coded)) return 0;
    switch (t->coded->form) {
    case GRAFT_CODED_FP8:
        return float_type(t->coded->dtype);
    case GRAFT_CODED_MXFP8:
        return GRAFT_FLOAT_MXFP8;
    case GRAFT_CODED_NVFP4:
        return GRAFT_FLOAT_NVFP4;
    case GRAFT_CODED_NF4:
        return GRAFT_FLOAT_NF4;
    case GRAFT_CODED_FP4:
        return GRAFT_FLOAT_FP4;
    default:
        return 0;
    }
}

int32_t graft_packed_as(const graft_st_tensor *t)
{
    const int32_t own = graft_packed_type(t);
    return own || t->part || t->rank < 2 || !t->coded || t->coded->block ? own : GRAFT_GGML_Q8_0;
}

void graft_packed_copy(const graft_st_tensor *t, uint8_t *blocks, uint8_t *scales)
{
    if (t->coded)
        graft_coded_blocks(t->coded, t->data, blocks);
    else
        memcpy(blocks, t->data, (size_t)t->bytes);
    if (!graft_blocks_scaled(graft_packed_type(t))) return;
    for (int64_t row = 0; row < t->shape[0]; row++) {
        const float scale = t->coded        ? graft_coded_row_scale(t->coded, row)
                            : t->scale != 0 ? t->scale
                                            : 1;
        memcpy(scales + row * (int64_t)sizeof scale, &scale, sizeof scale);
    }
}
