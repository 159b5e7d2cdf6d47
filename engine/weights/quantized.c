#include "engine/weights/quantized.h"

#include <string.h>

#include "kernels/quant.h"

uint64_t graft_quantized_level_bytes(graft_dtype t, int64_t outputs, int64_t n)
{
    return t != GRAFT_Q4 ? (uint64_t)(outputs * n)
                         : (uint64_t)(outputs * graft_quant4_groups(n)) * GRAFT_QUANT_GROUP_BYTES;
}

uint64_t graft_quantized_bytes(graft_dtype t, int64_t outputs, int64_t n)
{
    return t != GRAFT_Q4 ? (uint64_t)(outputs * n) + (uint64_t)outputs * sizeof(float)
                         : graft_quant4_bytes(outputs, n);
}

static float scale_at(const uint8_t *p, int64_t i)
{
    float v;
    memcpy(&v, p + i * (int64_t)sizeof v, sizeof v);
    return v;
}

void graft_quantized_to_f32(graft_dtype t, const void *data, int64_t outputs, int64_t n, float *out)
{
    const uint8_t *level = data, *scale = level + graft_quantized_level_bytes(t, outputs, n);
    int64_t groups = graft_quant4_groups(n);
    graft_quant q = graft_quant_of_dtype(t);
    for (int64_t o = 0; o < outputs && t != GRAFT_Q4; o++)
        graft_quant8_values(q, level + o * n, scale_at(scale, o), out + o * n, n);
    for (int64_t k = 0; k < outputs * groups && t == GRAFT_Q4; k++) {
        float group[GRAFT_QUANT_GROUP];
        int64_t first = k % groups * GRAFT_QUANT_GROUP;
        int64_t count = n - first < GRAFT_QUANT_GROUP ? n - first : GRAFT_QUANT_GROUP;
        graft_quant4_unpack(level + k * GRAFT_QUANT_GROUP_BYTES, scale_at(scale, k), group);
        memcpy(out + k / groups * n + first, group, (size_t)count * sizeof *out);
    }
}

void graft_quantized_from_f32(graft_dtype t, const float *values, int64_t outputs, int64_t n,
                              void *out)
{
    if (t == GRAFT_Q4) {
        graft_quant4_pack_rows(values, 0, outputs, outputs, n, out);
        return;
    }
    graft_quant q = graft_quant_of_dtype(t);
    uint8_t *level = out;
    for (int64_t o = 0; o < outputs; o++) {
        const float *row = values + o * n;
        float scale = graft_quant8_scale(q, graft_quant_absmax(row, n));
        float inverse = graft_quant_inverse(scale);
        for (int64_t i = 0; i < n; i++) level[o * n + i] = graft_quant8_level(q, row[i], inverse);
        memcpy(level + outputs * n + o * (int64_t)sizeof scale, &scale, sizeof scale);
    }
}
