#include "kernels/cuda/ops/quant.h"

#include "kernels/cuda/ops/matmul.h"
#include "kernels/quant.h"

enum { WARPS = GRAFT_CUDA_THREADS / 32 };

graft_status graft_cuda_int8_check(const graft_op_desc *op, graft_err *e)
{
    const int64_t *w = op->in[1].dim;
    int64_t taps = op->op == GRAFT_OP_CONV2D ? w[2] * w[3] : 1;
    int64_t k = graft_cuda_int8_padded(w[1]) * taps, most = INT32_MAX / (127 * 127);
    if (k > most && op->attrs.quant == GRAFT_QUANT_INT8)
        return graft_fail(e, GRAFT_E_UNSUPPORTED, "int8 sums of %lld products", (long long)k);
    if ((double)k * (double)w[0] > INT32_MAX)
        return graft_fail(e, GRAFT_E_LIMIT, "a weight of more than 2^31 levels");
    return GRAFT_OK;
}

/* ------------------------------------------------------------------ weights */

static uint64_t levels_bytes(const graft_cuda_layout *l)
{
    return (uint64_t)l->rows * l->ldw; /* a multiple of 16, where a library may read the scales */
}

void graft_cuda_int8_layout(graft_kernel *k, bool pairs)
{
    graft_cuda_matmul_layout(k, pairs);
    graft_cuda_layout weight = k->layout[1], bias = k->layout[2];
    weight.to = graft_cuda_level(&k->op);
    weight.ldw = (uint32_t)graft_cuda_int8_padded(weight.channels) * weight.taps;
    graft_cuda_pack_as(k, 1, weight);
    k->info.packed_bytes[1] = levels_bytes(&weight) + weight.rows * sizeof(float);
    if (!bias.rows) return;
    bias.to = k->lt ? k->t : GRAFT_F32; /* cuBLASLt adds it in the result's dtype */
    graft_cuda_pack_as(k, 2, bias);
}

const float *graft_cuda_int8_scales(const graft_kernel *k, const void *packed)
{
    return (const float *)(const void *)((const char *)packed + levels_bytes(&k->layout[1]));
}

uint64_t graft_cuda_source_bytes(const graft_cuda_layout *l, graft_dtype from)
{
    uint64_t values = (uint64_t)l->channels * l->taps;
    const int32_t type = graft_quant_blocks(graft_quant_of_dtype(from));
    if (type) return (uint64_t)graft_blocks_bytes(type, l->rows, (int64_t)values);
    if (from == GRAFT_Q4) return graft_quant4_bytes(l->rows, (int64_t)values);
    if (from == GRAFT_Q8 || from == GRAFT_QF8) return l->rows * (values + sizeof(float));
    return l->rows * values * graft_dtype_size(from);
}

static graft_status pack8(graft_device *d, const graft_cuda_layout *l, graft_dtype from,
                          const void *raw, void *dst)
{
    graft_cuda_quant_weights p = {.src = raw,
                                  .level = dst,
                                  .scale = (float *)(void *)((char *)dst + levels_bytes(l)),
                                  .from = from,
                                  .pairs = l->pairs,
                                  .quant = l->to == GRAFT_I8 ? GRAFT_QUANT_INT8 : GRAFT_QUANT_FP8,
                                  .rows = l->rows,
                                  .channels = l->channels,
                                  .taps = l->taps,
                                  .padded = l->ldw / l->taps};
    return graft_cuda_launch(d, GRAFT_CUDA_FN_graft_quant_weights, l->rows, 1, 1, &p);
}

static graft_status pack4(graft_device *d, const graft_cuda_layout *l, graft_dtype from,
                          const void *raw, void *dst)
{
    graft_cuda_quant4 p = {.src = raw,
                           .dst = dst,
                           .from = from,
                           .rows = l->rows,
                           .channels = l->channels,
                           .taps = l->taps,
                           .groups = (uint32_t)graft_quant4_groups((int64_t)l->channels * l->taps)};
    return graft_cuda_launch(d, GRAFT_CUDA_FN_graft_quant4_pack,
                             graft_cuda_blocks((uint64_t)p.rows * p.groups, WARPS), 1, 1, &p);
}

static graft_status pack_q8_0(graft_device *d, const graft_cuda_layout *l, graft_dtype from,
                              const void *raw, void *dst)
{
    uint64_t blocks = (uint64_t)l->rows * l->channels / GRAFT_GGML_SMALL;
    graft_cuda_block p = {.src = raw, .dst = dst, .from = from, .count = (uint32_t)blocks};
    return graft_cuda_launch(d, GRAFT_CUDA_FN_graft_block_pack, graft_cuda_blocks(blocks, WARPS), 1,
                             1, &p);
}

graft_status graft_cuda_quant_pack(graft_device *d, const graft_cuda_layout *l, graft_dtype from,
                                   const void *raw, void *dst)
{
    if (l->blocks) return pack_q8_0(d, l, from, raw, dst);
    return l->int4 ? pack4(d, l, from, raw, dst) : pack8(d, l, from, raw, dst);
}

/* ------------------------------------------------------------------ activations */

/* Rows that begin at multiples of 16 bytes. */
static bool vectors(const graft_kernel *k, const void *data, const int64_t *stride, int n)
{
    int64_t step = 16 / (int64_t)graft_dtype_size(k->t);
    bool yes = (uintptr_t)data % 16 == 0;
    for (int i = 0; i < n; i++) yes = yes && stride[i] % step == 0;
    return yes;
}

/* The kernel that keeps a row in registers, if there is one for p. */
static graft_cuda_function rows_kernel(const graft_kernel *k, const graft_cuda_quant_rows *p)
{
    static const struct {
        uint32_t most;
        graft_cuda_function f16, bf16;
    } kept[] = {
        {1280, GRAFT_CUDA_FN_graft_quant_rows_1280_f16, GRAFT_CUDA_FN_graft_quant_rows_1280_bf16},
        {2560, GRAFT_CUDA_FN_graft_quant_rows_2560_f16, GRAFT_CUDA_FN_graft_quant_rows_2560_bf16},
        {5120, GRAFT_CUDA_FN_graft_quant_rows_5120_f16, GRAFT_CUDA_FN_graft_quant_rows_5120_bf16}};
    bool whole = k->t != GRAFT_F32 && p->vec && p->dim[3] % 8 == 0;
    for (size_t i = 0; i < sizeof kept / sizeof *kept && whole; i++)
        if (p->dim[3] <= kept[i].most) return k->t == GRAFT_F16 ? kept[i].f16 : kept[i].bf16;
    return graft_cuda_typed(GRAFT_CUDA_FN_graft_quant_rows, k->t);
}

static graft_cuda_quant_rows rows_of(const graft_kernel *k, const graft_tensor_desc *x,
                                     const void *data, int8_t *level, float *scale)
{
    graft_cuda_quant_rows p = {
        .x = data, .level = level, .scale = scale, .quant = k->op.attrs.quant};
    graft_cuda_shape(x, p.dim, p.sx);
    p.rows = p.dim[0] * p.dim[1] * p.dim[2];
    p.ld = (uint32_t)graft_cuda_int8_padded(p.dim[3]);
    p.vec = vectors(k, data, p.sx, 3);
    return p;
}

graft_status graft_cuda_quantize_rows(const graft_kernel *k, const graft_tensor_desc *x,
                                      const void *data, int8_t *level, float *scale)
{
    graft_cuda_quant_rows p = rows_of(k, x, data, level, scale);
    return graft_cuda_launch(k->d, rows_kernel(k, &p), graft_cuda_blocks(p.rows, WARPS), 1, 1, &p);
}

graft_status graft_cuda_norm_rows(const graft_kernel *k, const graft_tensor_desc *x,
                                  const void *data, const void *gamma, const void *beta,
                                  int8_t *level, float *scale)
{
    graft_cuda_normed_rows p = {.to = rows_of(k, x, data, level, scale),
                                .gamma = gamma,
                                .beta = beta,
                                .eps = k->op.attrs.eps};
    return graft_cuda_launch(k->d,
                             graft_cuda_typed(p.to.dim[3] <= 1280
                                                  ? GRAFT_CUDA_FN_graft_norm_rows_1280
                                                  : GRAFT_CUDA_FN_graft_norm_rows_2048,
                                              k->t),
                             graft_cuda_blocks(p.to.rows, WARPS), 1, 1, &p);
}

/* Kernels that turn rows: those whose warps have 1024 values of one each, and those with 4096. */
static graft_cuda_function turning(const graft_cuda_quant_rows *p, uint32_t group, bool normed,
                                   uint32_t *values)
{
    *values = 1024;
    if (normed) return GRAFT_CUDA_FN_graft_turn_normed;
    bool whole = p->vec && p->dim[3] % 8 == 0;
    if (whole && p->dim[3] <= WARPS * *values && group <= *values)
        return GRAFT_CUDA_FN_graft_turn_rows_8192;
    *values = 4096;
    return whole ? GRAFT_CUDA_FN_graft_turn_rows_32768 : GRAFT_CUDA_FN_graft_turn_singly;
}

graft_status graft_cuda_turn_rows(const graft_kernel *k, const graft_tensor_desc *x,
                                  const void *data, const void *gamma, const void *beta,
                                  int8_t *level, float *scale)
{
    graft_cuda_turned_rows p = {.to = rows_of(k, x, data, level, scale),
                                .gamma = gamma,
                                .beta = beta,
                                .eps = k->op.attrs.eps,
                                .group = (uint32_t)k->op.attrs.groups,
                                .warps = 1};
    uint32_t values;
    graft_cuda_function f = turning(&p.to, p.group, gamma != NULL, &values);
    while (p.warps * values < p.to.dim[3]) p.warps *= 2;
    return graft_cuda_launch(k->d, graft_cuda_typed(f, k->t),
                             graft_cuda_blocks(p.to.rows, WARPS / p.warps), 1, 1, &p);
}

graft_status graft_cuda_quantize_pictures(const graft_kernel *k, const graft_tensor_desc *x,
                                          const void *data, const int64_t *doubled, int8_t *level,
                                          float *scale, uint32_t copies, float *most)
{
    uint32_t batch = (uint32_t)x->dim[0];
    graft_cuda_quant_pictures p = {.x = data,
                                   .level = level,
                                   .scale = scale,
                                   .most = most,
                                   .sx = {x->stride[0], x->stride[1], x->stride[2]},
                                   .from_h = (uint32_t)x->dim[1],
                                   .from_w = (uint32_t)x->dim[2],
                                   .height = (uint32_t)(doubled ? doubled[0] : x->dim[1]),
                                   .width = (uint32_t)(doubled ? doubled[1] : x->dim[2]),
                                   .channels = (uint32_t)x->dim[3],
                                   .up = doubled != NULL,
                                   .quant = k->op.attrs.quant,
                                   .copies = copies};
    p.ld = (uint32_t)graft_cuda_int8_padded(x->dim[3]);
    p.vec = vectors(k, data, p.sx, 3);
    uint64_t eights = (uint64_t)p.height * p.width * p.ld / 8;
    p.blocks = graft_cuda_blocks(eights, 4 * GRAFT_CUDA_THREADS);
    p.splits = p.blocks < GRAFT_CUDA_QUANT_SPLITS ? p.blocks : GRAFT_CUDA_QUANT_SPLITS;
    graft_status st = graft_cuda_launch(
        k->d, graft_cuda_typed(GRAFT_CUDA_FN_graft_quant_most, k->t), p.splits, batch, 1, &p);
    if (st) return st;
    return graft_cuda_launch(k->d, graft_cuda_typed(GRAFT_CUDA_FN_graft_quant_pictures, k->t),
                             p.blocks, batch, 1, &p);
}

/* ------------------------------------------------------------------ products */

void graft_cuda_int8_levels(graft_cuda_matmul *p, int64_t channels, int64_t h, int64_t w)
{
    int64_t padded = graft_cuda_int8_padded(channels);
    p->k = (int32_t)(padded * (p->k / channels));
    p->ldw = p->k;
    p->channels = (int32_t)padded;
    p->sx[2] = padded;
    p->sx[1] = w * p->sx[2];
    p->sx[0] = h * p->sx[1];
}

static bool small_tiles(const graft_kernel *k, const graft_cuda_matmul *p)
{
    uint64_t large =
        (uint64_t)graft_cuda_blocks((uint64_t)p->m, 128) * graft_cuda_blocks((uint64_t)p->n, 128);
    return large < (uint64_t)k->d->processors;
}

/* FP8 by instructions of its own keeps fewer bits of a sum than float32 has: too few for a result
 * in float32. */
static bool fp8_mma(const graft_kernel *k)
{
    return k->d->fp8 && k->t != GRAFT_F32;
}

static graft_cuda_function fp8_kernel(const graft_kernel *k, bool small)
{
    bool f16 = k->t == GRAFT_F16;
    if (small) return f16 ? GRAFT_CUDA_FN_graft_fp8_small_f16 : GRAFT_CUDA_FN_graft_fp8_small_bf16;
    return f16 ? GRAFT_CUDA_FN_graft_fp8_large_f16 : GRAFT_CUDA_FN_graft_fp8_large_bf16;
}

const char *graft_cuda_int8_name(const graft_kernel *k, const graft_cuda_matmul *p)
{
    bool fp8 = k->op.attrs.quant == GRAFT_QUANT_FP8;
    if (fp8 && !fp8_mma(k)) return "own fp8 as f16 mma 128x64";
    if (fp8) return small_tiles(k, p) ? "own fp8 mma 64x64" : "own fp8 mma 128x128";
    return small_tiles(k, p) ? "own int8 mma 64x64" : "own int8 mma 128x128";
}

graft_status graft_cuda_int8_run(graft_kernel *k, graft_cuda_int8 *p, const void *const *in,
                                 void *out, const char *ws)
{
    bool fp8 = k->op.attrs.quant == GRAFT_QUANT_FP8, as_f16 = fp8 && !fp8_mma(k);
    bool small = !as_f16 && small_tiles(k, &p->m);
    uint32_t rows = small ? 64 : 128, columns = small || as_f16 ? 64 : 128;
    graft_cuda_function f = small ? GRAFT_CUDA_FN_graft_int8_small : GRAFT_CUDA_FN_graft_int8_large;
    if (as_f16) f = GRAFT_CUDA_FN_graft_fp8;
    f = fp8 && !as_f16 ? fp8_kernel(k, small) : graft_cuda_typed(f, k->t);
    p->m.x = ws + k->at.level;
    p->m.w = in[1];
    p->m.bias = in[2];
    p->narrow = k->lt != NULL;
    p->m.out = out;
    p->row_scale = (const float *)(const void *)(ws + k->at.scale);
    p->column_scale = graft_cuda_int8_scales(k, in[1]);
    return graft_cuda_launch(k->d, f, graft_cuda_blocks((uint64_t)p->m.m, rows),
                             graft_cuda_blocks((uint64_t)p->m.n, columns), 1, p);
}
