/* Constants from any floating-point dtype to what the kernels read. */
#include <string.h>

#include "base/half.h"
#include "kernels/cpu/cpu.h"

#define SLICE 4096

void graft_cpu_to_f32(graft_dtype t, const void *src, int64_t first, float *dst, int64_t n)
{
    const void *from = graft_cpu_at(src, t, first);
    switch (t) {
    case GRAFT_F32:
        memcpy(dst, from, (size_t)n * 4);
        break;
    case GRAFT_F16:
        graft_f16_to_f32_array(from, dst, (size_t)n);
        break;
    case GRAFT_BF16:
        graft_bf16_to_f32_array(from, dst, (size_t)n);
        break;
    case GRAFT_F64:
        for (int64_t i = 0; i < n; i++) {
            double v;
            memcpy(&v, (const char *)from + i * 8, sizeof v);
            dst[i] = (float)v;
        }
        break;
    case GRAFT_F8_E4M3:
        for (int64_t i = 0; i < n; i++) dst[i] = graft_f8_e4m3_to_f32(((const uint8_t *)from)[i]);
        break;
    case GRAFT_F8_E5M2:
        for (int64_t i = 0; i < n; i++) dst[i] = graft_f8_e5m2_to_f32(((const uint8_t *)from)[i]);
        break;
    default:
        memset(dst, 0, (size_t)n * 4);
    }
}

typedef struct job {
    graft_dtype from, to;
    const void *src;
    void *dst;
    int64_t n;
} job;

static void pack_part(void *p, int part, int parts)
{
    const job *j = p;
    float slice[SLICE];
    int64_t end = j->n * (part + 1) / parts;
    for (int64_t i = j->n * part / parts; i < end; i += SLICE) {
        int64_t n = end - i < SLICE ? end - i : SLICE;
        if (j->from == j->to) {
            memcpy(graft_cpu_at_mut(j->dst, j->to, i), graft_cpu_at(j->src, j->from, i),
                   (size_t)n * graft_dtype_size(j->to));
        } else if (j->to == GRAFT_F32) {
            graft_cpu_to_f32(j->from, j->src, i, (float *)j->dst + i, n);
        } else {
            graft_cpu_to_f32(j->from, j->src, i, slice, n);
            graft_f32_to_bf16_array(slice, (uint16_t *)j->dst + i, (size_t)n);
        }
    }
}

graft_status graft_cpu_pack_dense(const graft_device *d, graft_dtype from, const void *src,
                                  graft_dtype to, void *dst, int64_t n)
{
    if (!graft_cpu_is_float(from)) return GRAFT_E_UNSUPPORTED;
    job j = {from, to, src, dst, n};
    graft_cpu_parallel(graft_cpu_threads(d, n), pack_part, &j);
    return GRAFT_OK;
}

uint64_t graft_cpu_packing_dense(graft_dtype t)
{
    return 0x67726166740000ull + (uint64_t)t;
}

void graft_cpu_pack_as(graft_kernel *k, int input, graft_dtype to)
{
    graft_tensor_desc *t = &k->op.in[input];
    if (!graft_cpu_present(t) || !t->constant) return;
    graft_cpu_make_dense(t, to);
    k->info.packed_bytes[input] = (uint64_t)graft_cpu_elements(t) * graft_dtype_size(to);
    k->info.packing[input] = graft_cpu_packing_dense(to);
}
