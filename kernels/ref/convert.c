#include <string.h>

#include "base/half.h"
#include "kernels/ref/ref.h"

bool graft_ref_to_f32(graft_dtype dtype, const void *src, float *dst, int64_t n)
{
    size_t count = (size_t)n;
    switch (dtype) {
    case GRAFT_F32:
        memcpy(dst, src, count * sizeof(float));
        return true;
    case GRAFT_F16:
        graft_f16_to_f32_array(src, dst, count);
        return true;
    case GRAFT_BF16:
        graft_bf16_to_f32_array(src, dst, count);
        return true;
    case GRAFT_F64:
        for (size_t i = 0; i < count; i++) {
            double v; /* sources in mapped files need not be aligned */
            memcpy(&v, (const char *)src + i * sizeof v, sizeof v);
            dst[i] = (float)v;
        }
        return true;
    case GRAFT_F8_E4M3:
        for (size_t i = 0; i < count; i++) dst[i] = graft_f8_e4m3_to_f32(((const uint8_t *)src)[i]);
        return true;
    case GRAFT_F8_E5M2:
        for (size_t i = 0; i < count; i++) dst[i] = graft_f8_e5m2_to_f32(((const uint8_t *)src)[i]);
        return true;
    default:
        return false;
    }
}
