#include "engine/weights/values.h"

#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/half.h"
#include "engine/weights/coded.h"

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

void graft_st_to_f32(const graft_st_tensor *t, int64_t first, int64_t n, float *dst)
{
    if (t->blocks)
        graft_ggml_blocks_to_f32(t->blocks, t->data, first, n, dst);
    else if (t->coded)
        graft_coded_to_f32(t->coded, t->data, first, n, dst);
    else
        graft_to_f32(t->dtype,
                     (const uint8_t *)t->data + (size_t)first * graft_dtype_size(t->dtype), dst,
                     (size_t)n);
}

graft_status graft_st_as_f16(const graft_st_tensor *t, uint16_t **out, graft_err *e)
{
    enum { PIECE = 1024 };
    const int64_t all = graft_st_values(t);
    float piece[PIECE], most = 0;
    *out = graft_malloc_array((size_t)all, sizeof **out);
    if (!*out) return graft_fail_nomem(e, "a tensor in float16");
    for (int64_t at = 0, n; at < all; at += n) {
        n = all - at < PIECE ? all - at : PIECE;
        graft_st_to_f32(t, at, n, piece);
        graft_f32_to_f16_array(piece, *out + at, (size_t)n);
        for (int64_t k = 0; k < n; k++) most = fmaxf(most, fabsf(piece[k]));
    }
    if (most < 65520.0f) return GRAFT_OK; /* what is nearer to 65504 than to the next one */
    graft_free(*out);
    *out = NULL;
    return graft_fail(e, GRAFT_E_UNSUPPORTED, "tensor \"%.200s\" has values beyond float16's",
                      graft_st_called(t));
}
