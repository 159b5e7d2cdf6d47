#include "kernels/cpu/int8.h"

#include <string.h>

#include "kernels/quant.h"

#define PACKING 0x696e7438u

static size_t padded(const dnnl_memory_desc_t *md)
{
    return (dnnl_memory_desc_get_size(md) + GRAFT_CPU_ALIGN - 1) / GRAFT_CPU_ALIGN *
           GRAFT_CPU_ALIGN;
}

uint64_t graft_cpu_int8_bytes(const dnnl_memory_desc_t *md, int64_t outputs)
{
    return padded(md) + (uint64_t)outputs * sizeof(float);
}

uint64_t graft_cpu_int8_packing(const dnnl_memory_desc_t *md, int output_dim)
{
    return graft_cpu_packing_weights(md, output_dim) ^ PACKING;
}

const float *graft_cpu_int8_scales(const dnnl_memory_desc_t *md, const void *packed)
{
    return (const float *)(const void *)((const char *)packed + padded(md));
}

/* ------------------------------------------------------------------ rows */

size_t graft_cpu_int8_turned(const graft_op_desc *op)
{
    return op->op == GRAFT_OP_LINEAR && op->attrs.groups
               ? (size_t)op->in[GRAFT_LINEAR_W].dim[1] * sizeof(float)
               : 0;
}

graft_cpu_int8_row graft_cpu_int8_row_of(const graft_kernel *k, const void *x, float *turned)
{
    const graft_dtype t = k->op.in[GRAFT_LINEAR_X].dtype;
    if (!graft_cpu_int8_turned(&k->op)) return (graft_cpu_int8_row){x, t};
    k->d->simd->hadamard(x, t, (size_t)k->op.attrs.groups, turned,
                         (size_t)k->op.in[GRAFT_LINEAR_W].dim[1]);
    return (graft_cpu_int8_row){turned, GRAFT_F32};
}

/* ------------------------------------------------------------------ pictures */

typedef struct picture {
    const graft_device *d;
    const graft_tensor_desc *x;
    const void *data;
    float *each; /* part's largest */
} picture;

static void most_part(void *p, int part, int parts)
{
    const picture *j = p;
    const graft_tensor_desc *x = j->x;
    int64_t pixels = x->dim[1] * x->dim[2], end = pixels * (part + 1) / parts;
    float most = 0;
    for (int64_t i = pixels * part / parts; i < end; i++) {
        int64_t at = i / x->dim[2] * x->stride[1] + i % x->dim[2] * x->stride[2];
        float v =
            j->d->simd->absmax(graft_cpu_at(j->data, x->dtype, at), x->dtype, (size_t)x->dim[3]);
        most = v > most ? v : most;
    }
    j->each[part] = most;
}

float graft_cpu_int8_most(const graft_device *d, const graft_tensor_desc *x, const void *data,
                          float each[GRAFT_CPU_INT8_PARTS])
{
    picture j = {d, x, data, each};
    int parts = graft_cpu_threads(d, x->dim[1] * x->dim[2] * x->dim[3]);
    if (parts > GRAFT_CPU_INT8_PARTS) parts = GRAFT_CPU_INT8_PARTS;
    for (int i = 0; i < parts; i++) each[i] = 0;
    graft_cpu_parallel(parts, most_part, &j);
    float most = 0;
    for (int i = 0; i < parts; i++) most = each[i] > most ? each[i] : most;
    return most;
}

/* ------------------------------------------------------------------ weights */

typedef struct job {
    const graft_device *d;
    graft_quant quant;
    graft_dtype from;
    const void *src;
    int8_t *level;
    float *scale, *row; /* row: one for each part */
    int64_t outputs, n;
} job;

static void quantize_part(void *p, int part, int parts)
{
    const job *j = p;
    float *row = j->row + j->n * part;
    int64_t end = j->outputs * (part + 1) / parts;
    for (int64_t o = j->outputs * part / parts; o < end; o++) {
        graft_cpu_to_f32(j->from, j->src, o * j->n, row, j->n);
        float most = j->d->simd->absmax(row, GRAFT_F32, (size_t)j->n);
        float scale = graft_quant8_scale(j->quant, most);
        j->scale[o] = scale;
        if (j->quant == GRAFT_QUANT_FP8) {
            float inverse = graft_quant_inverse(scale);
            for (int64_t i = 0; i < j->n; i++)
                j->level[o * j->n + i] = (int8_t)graft_quant8_level(j->quant, row[i], inverse);
            continue;
        }
        j->d->simd->to_s8(row, GRAFT_F32, graft_quant_inverse(scale), j->level + o * j->n,
                          (size_t)j->n);
    }
}

/* From dense to md, which may hold sums of its own beside the values. */
static graft_status reorder(graft_device *d, const dnnl_memory_desc_t *md, int output_dim,
                            int8_t *level, void *dst)
{
    dnnl_memory_desc_t dense;
    dnnl_primitive_desc_t pd = NULL;
    dnnl_primitive_t primitive = NULL;
    dnnl_memory_t from = NULL, to = NULL;
    dnnl_stream_t stream = NULL;
    dnnl_status_t st = dnnl_memory_desc_init_by_tag(&dense, md->ndims, md->dims, dnnl_s8,
                                                    md->ndims == 4 ? dnnl_oihw
                                                    : output_dim   ? dnnl_ba
                                                                   : dnnl_ab);
    if (!st) st = dnnl_reorder_primitive_desc_create(&pd, &dense, d->engine, md, d->engine, NULL);
    if (!st) st = dnnl_primitive_create(&primitive, pd);
    if (!st) st = dnnl_memory_create(&from, &dense, d->engine, level);
    if (!st) st = dnnl_memory_create(&to, md, d->engine, dst);
    if (!st) st = dnnl_stream_create(&stream, d->engine, dnnl_stream_default_flags);
    dnnl_exec_arg_t args[2] = {{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}};
    if (!st) st = dnnl_primitive_execute(primitive, stream, 2, args);
    if (!st) st = dnnl_stream_wait(stream);
    if (stream) dnnl_stream_destroy(stream);
    if (to) dnnl_memory_destroy(to);
    if (from) dnnl_memory_destroy(from);
    if (primitive) dnnl_primitive_destroy(primitive);
    if (pd) dnnl_primitive_desc_destroy(pd);
    return graft_cpu_dnnl_fail(st, "reorder", NULL);
}

static graft_status place(graft_device *d, const dnnl_memory_desc_t *md, int output_dim,
                          const int8_t *level, void *dst)
{
    graft_status st;
    size_t end = dnnl_memory_desc_get_size(md);
    memset((char *)dst + end, 0, padded(md) - end);
    if (graft_cpu_place_int8(d, md, output_dim, level, dst, &st)) return st;
    int before = graft_cpu_threads_set(d->host.threads);
    memset(dst, 0, end);
    union {
        const int8_t *in;
        int8_t *out;
    } handle = {level}; /* oneDNN takes sources through a plain pointer too */
    st = reorder(d, md, output_dim, handle.out, dst);
    graft_cpu_threads_set(before);
    return st;
}

graft_status graft_cpu_int8_levels_of(graft_device *d, graft_quant quant, graft_dtype from,
                                      const void *src, int64_t outputs, int64_t n, float *scale,
                                      graft_cpu_int8_levels *out)
{
    job j = {.d = d,
             .quant = quant,
             .from = from,
             .src = src,
             .scale = scale,
             .outputs = outputs,
             .n = n};
    size_t levels = (size_t)(outputs * n);
    *out = (graft_cpu_int8_levels){NULL, NULL};
    if (from == graft_quant_dtype(quant)) {
        memcpy(scale, (const char *)src + levels, (size_t)outputs * sizeof(float));
        out->level = src;
        return GRAFT_OK;
    }
    if (!graft_cpu_is_float(from)) return GRAFT_E_UNSUPPORTED;
    int parts = graft_cpu_threads(d, outputs * n);
    out->own = j.row = graft_cpu_calloc(d, (size_t)parts * (size_t)n * sizeof(float) + levels);
    if (!j.row) return GRAFT_E_NOMEM;
    out->level = j.level = (int8_t *)(j.row + (int64_t)parts * n);
    graft_cpu_parallel(parts, quantize_part, &j);
    return GRAFT_OK;
}

graft_status graft_cpu_int8_pack(graft_device *d, const dnnl_memory_desc_t *md, int output_dim,
                                 graft_dtype from, const void *src, void *dst)
{
    int64_t n = 1;
    graft_cpu_int8_levels level;
    for (int i = 0; i < md->ndims; i++)
        if (i != output_dim) n *= md->dims[i];
    float *scale = (float *)(void *)((char *)dst + padded(md));
    graft_status st = graft_cpu_int8_levels_of(d, GRAFT_QUANT_INT8, from, src, md->dims[output_dim],
                                               n, scale, &level);
    if (!st) st = place(d, md, output_dim, level.level, dst);
    graft_cpu_free(d, level.own);
    return st;
}

/* ------------------------------------------------------------------ results */

static void finish_part(void *p, int part, int parts)
{
    const graft_cpu_int8_rows *r = p;
    const graft_cpu_simd *simd = r->k->d->simd;
    const graft_tensor_desc *y = &r->k->op.out;
    graft_act act = r->k->op.attrs.act;
    size_t n = (size_t)r->wide;
    int64_t end = r->count * (part + 1) / parts;
    for (int64_t i = r->count * part / parts; i < end; i++) {
        int64_t row = r->first + i, group = row / r->rows_per_scale;
        void *acc = r->acc + i * r->wide,
             *out = graft_cpu_at_mut(r->out, y->dtype, graft_cpu_row_offset(y, row));
        simd->from_s32(acc, r->weight_scale, r->input_scale[group], r->bias, n);
        if (act == GRAFT_ACT_GEGLU) {
            simd->geglu(acc, (float *)acc + n / 2, GRAFT_F32, out, y->dtype, n / 2);
            continue;
        }
        const float *channel = r->channel ? r->channel + group * r->wide : NULL;
        const void *residual = NULL;
        graft_dtype rt = GRAFT_F32;
        if (r->residual) {
            rt = r->residual_desc->dtype;
            residual = graft_cpu_at(r->residual, rt, graft_cpu_row_offset(r->residual_desc, row));
        }
        if (channel || residual || act)
            simd->epilogue(act, acc, GRAFT_F32, channel, residual, rt, n);
        simd->act(GRAFT_ACT_NONE, acc, GRAFT_F32, out, y->dtype, n);
    }
}

void graft_cpu_int8_finish(const graft_cpu_int8_rows *r)
{
    graft_cpu_int8_rows own = *r;
    graft_cpu_parallel(graft_cpu_threads(r->k->d, r->count * r->wide), finish_part, &own);
}
