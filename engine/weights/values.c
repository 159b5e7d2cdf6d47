#include "engine/weights/values.h"

#include <string.h>

#include "base/half.h"
#include "engine/weights/quantized.h"

void graft_to_f32(graft_dtype dtype, const void *src, float *dst, size_t n)
{
    const uint8_t *p = src;
    switch (dtype) {
    case GRAFT_F32:
        memcpy(dst, src, n * sizeof *dst);
        return;
    case GRAFT_F16:
        graft_f16_to_f32_array(src, dst, n);
        return;
    case GRAFT_BF16:
        graft_bf16_to_f32_array(src, dst, n);
        return;
    default:
        break;
    }
    for (size_t i = 0; i < n; i++) {
        double d;
        if (dtype == GRAFT_F8_E4M3) {
            dst[i] = graft_f8_e4m3_to_f32(p[i]);
        } else if (dtype == GRAFT_F8_E5M2) {
            dst[i] = graft_f8_e5m2_to_f32(p[i]);
        } else if (dtype == GRAFT_F64) {
            memcpy(&d, p + i * sizeof d, sizeof d);
            dst[i] = (float)d;
        } else {
            dst[i] = 0.0f;
        }
    }
}

bool graft_is_weight_type(graft_dtype t)
{
    return t == GRAFT_F32 || t == GRAFT_F16 || t == GRAFT_BF16 || t == GRAFT_F64 ||
           t == GRAFT_F8_E4M3 || t == GRAFT_F8_E5M2 || graft_is_quantized(t);
}
