/* CONV2D 3x3 by oneDNN's Winograd F(4x4, 3x3) (Lavin and Gray 2015): a quarter of the
 * multiplications, in float32 whatever the tensors are.
 *
 * Weights stay as they are for the direct convolution and are transformed in every launch, into
 * scratch memory: four times the weights would otherwise be resident, and slow to swap. What the
 * transformed weights and tiles take is bounded, and kept near the caches, by working on slices of
 * the output channels and on strips of rows: a strip transforms the weights again, a slice the
 * picture. Both sides are copied, since oneDNN wants blocks of channels here: that is where dtypes
 * are converted, the picture is doubled, and the epilogue done. */
#include <stdio.h>
#include <string.h>

#include "base/half.h"
#include "kernels/cpu/conv2d.h"

#define BLOCK        16
#define TILE         4                   /* outputs a side */
#define TILE_VALUES  36                  /* of one channel, transformed */
#define MAX_CHANNELS 4096                /* a pixel on the stack */
#define STRIP_BYTES  ((int64_t)48 << 20) /* transformed tiles, both sides */
#define SLICE_BYTES  ((int64_t)64 << 20) /* transformed weights */

typedef struct winograd {
    graft_cpu_primitive primitive;
    int64_t height, width; /* of the input, doubled */
    int64_t rows, strips;  /* outputs in a strip */
    int64_t slice, slices; /* channels of the output in a slice */
    int bias, scratchpad;  /* places among the arguments, or -1 */
    size_t at_scratchpad, at_input, at_output, at_weights, at_add; /* in the workspace */
} winograd;

static int64_t tiles(int64_t n)
{
    return (n + TILE - 1) / TILE;
}

static void choose_strips(const graft_op_desc *op, winograd *s)
{
    const graft_tensor_desc *x = &op->in[GRAFT_CONV_X], *y = &op->out;
    int64_t row = y->dim[0] * tiles(y->dim[2]) * TILE_VALUES * 4 * (x->dim[3] + y->dim[3]);
    int64_t all = tiles(y->dim[1]), most = STRIP_BYTES / row;
    if (most < 1) most = 1;
    s->strips = (all + most - 1) / most;
    int64_t each = (all + s->strips - 1) / s->strips; /* equal, not one short strip at the end */
    s->strips = (all + each - 1) / each;
    s->rows = each * TILE < y->dim[1] ? each * TILE : y->dim[1];
}

static void choose_slices(const graft_op_desc *op, winograd *s)
{
    const graft_tensor_desc *w = &op->in[GRAFT_CONV_W];
    int64_t blocks = w->dim[0] / BLOCK, all = w->dim[0] * w->dim[1] * TILE_VALUES * 4;
    s->slices = (all + SLICE_BYTES - 1) / SLICE_BYTES;
    while (s->slices < blocks && blocks % s->slices) s->slices++;
    if (s->slices > blocks) s->slices = blocks;
    s->slice = w->dim[0] / s->slices;
}

static graft_status describe(graft_device *d, const graft_op_desc *op, const winograd *s,
                             dnnl_primitive_desc_t *pd, graft_err *e)
{
    const graft_tensor_desc *y = &op->out, *w = &op->in[GRAFT_CONV_W];
    const dnnl_dims_t x_dims = {y->dim[0], w->dim[1], s->rows + 2, s->width};
    const dnnl_dims_t y_dims = {y->dim[0], s->slice, s->rows, y->dim[2]};
    const dnnl_dims_t w_dims = {s->slice, w->dim[1], 3, 3}, b_dims = {s->slice};
    const dnnl_dims_t stride = {1, 1}, before = {0, op->attrs.pad_left};
    const dnnl_dims_t after = {0, y->dim[2] + 2 - s->width - op->attrs.pad_left};
    dnnl_memory_desc_t x_md, w_md, b_md, y_md;
    dnnl_primitive_attr_t attr = NULL;
    dnnl_convolution_desc_t cd;
    graft_status st;
    dnnl_status_t ds = dnnl_memory_desc_init_by_tag(&x_md, 4, x_dims, dnnl_f32, dnnl_nChw16c);
    if (!ds) ds = dnnl_memory_desc_init_by_tag(&y_md, 4, y_dims, dnnl_f32, dnnl_nChw16c);
    if (!ds) ds = dnnl_memory_desc_init_by_tag(&w_md, 4, w_dims, dnnl_f32, dnnl_OIhw16i16o);
    if (!ds) ds = dnnl_memory_desc_init_by_tag(&b_md, 1, b_dims, dnnl_f32, dnnl_a);
    GRAFT_TRY(graft_cpu_dnnl_fail(ds, "tensor", e));
    GRAFT_TRY(graft_cpu_attr_create(&attr, NULL, GRAFT_ACT_NONE, e));
    /* "training": with "inference" oneDNN wants transformed weights. */
    ds = dnnl_convolution_forward_desc_init(
        &cd, dnnl_forward_training, dnnl_convolution_winograd, &x_md, &w_md,
        graft_cpu_present(&op->in[GRAFT_CONV_BIAS]) ? &b_md : NULL, &y_md, stride, before, after);
    if (!ds) ds = dnnl_primitive_desc_create(pd, &cd, attr, d->engine, NULL);
    st = graft_cpu_dnnl_fail(ds, "conv2d by Winograd", e);
out:
    if (attr) dnnl_primitive_attr_destroy(attr);
    return st;
}

static graft_status plan(graft_device *d, const graft_op_desc *op, winograd *s,
                         dnnl_primitive_desc_t *pd, graft_err *e)
{
    graft_cpu_conv2d_input_size(op, &s->height, &s->width);
    choose_strips(op, s);
    choose_slices(op, s);
    return describe(d, op, s, pd, e);
}

int graft_cpu_has_winograd(graft_device *d, const graft_op_desc *op)
{
    const graft_tensor_desc *w = &op->in[GRAFT_CONV_W];
    winograd s;
    dnnl_primitive_desc_t pd = NULL;
    if (w->dim[2] != 3 || w->dim[3] != 3 || op->attrs.stride_h != 1 || op->attrs.stride_w != 1 ||
        w->dim[0] % BLOCK || w->dim[1] % BLOCK || w->dim[0] > MAX_CHANNELS ||
        w->dim[1] > MAX_CHANNELS)
        return 0;
    memset(&s, 0, sizeof s);
    if (plan(d, op, &s, &pd, NULL)) return 0;
    dnnl_primitive_desc_destroy(pd);
    return 1;
}

static void lay_out(graft_kernel *k, winograd *s, size_t scratchpad)
{
    const graft_tensor_desc *y = &k->op.out, *w = &k->op.in[GRAFT_CONV_W];
    int64_t images = y->dim[0];
    size_t end = 0;
    s->at_scratchpad = graft_cpu_reserve(&end, (int64_t)scratchpad);
    s->at_input = graft_cpu_reserve(&end, images * (s->rows + 2) * s->width * w->dim[1] * 4);
    s->at_output = graft_cpu_reserve(&end, images * s->rows * y->dim[2] * s->slice * 4);
    if (k->op.in[GRAFT_CONV_X].dtype != GRAFT_F32)
        s->at_weights = graft_cpu_reserve(&end, graft_cpu_elements(w) * 4);
    if (graft_cpu_present(&k->op.in[GRAFT_CONV_CHANNEL_ADD]))
        s->at_add = graft_cpu_reserve(&end, images * w->dim[0] * 4);
    k->info.workspace_bytes = end;
}

/* The layout that weights are kept in: what the primitive wants, in the dtype of x. */
static dnnl_memory_desc_t packed_md(const graft_kernel *k)
{
    const int64_t *dim = k->op.in[GRAFT_CONV_W].dim;
    const dnnl_dims_t dims = {dim[0], dim[1], 3, 3};
    dnnl_memory_desc_t md = {0};
    dnnl_memory_desc_init_by_tag(&md, 4, dims, dnnl_f32, dnnl_OIhw16i16o);
    if (k->op.in[GRAFT_CONV_X].dtype != GRAFT_F32) md.data_type = dnnl_bf16;
    return md;
}

static graft_status pack_rows(graft_kernel *k, int32_t input, graft_dtype t, const void *src,
                              void *dst, int64_t first, int64_t rows)
{
    dnnl_memory_desc_t md = packed_md(k);
    (void)input;
    return graft_cpu_pack_weight_rows(k->d, &md, 0, t, src, dst, first, rows);
}

static graft_status init(graft_kernel *k, int32_t variant, graft_err *e)
{
    graft_status st;
    dnnl_primitive_desc_t pd = NULL;
    (void)variant; /* conv2d.c chose it */
    winograd *s = k->state = graft_cpu_calloc(k->d, sizeof *s);
    if (!s) return graft_fail_nomem(e, "a convolution");
    k->pack_rows = pack_rows;
    graft_cpu_pack_as(k, GRAFT_CONV_BIAS, GRAFT_F32);
    graft_cpu_pack_as(k, GRAFT_CONV_CHANNEL_ADD, GRAFT_F32);
    graft_cpu_pack_as(k, GRAFT_CONV_RESIDUAL, k->op.out.dtype);
    GRAFT_TRY(plan(k->d, &k->op, s, &pd, e));
    int args = 0, arg[GRAFT_CPU_ARGS];
    arg[args++] = DNNL_ARG_SRC;
    arg[args++] = DNNL_ARG_WEIGHTS;
    arg[args++] = DNNL_ARG_DST;
    s->bias = s->scratchpad = -1;
    if (graft_cpu_present(&k->op.in[GRAFT_CONV_BIAS])) arg[s->bias = args++] = DNNL_ARG_BIAS;
    size_t scratchpad =
        dnnl_memory_desc_get_size(dnnl_primitive_desc_query_md(pd, dnnl_query_scratchpad_md, 0));
    if (scratchpad) arg[s->scratchpad = args++] = DNNL_ARG_SCRATCHPAD;
    lay_out(k, s, scratchpad);
    snprintf(k->info.variant, sizeof k->info.variant, "dnnl %s, %dx%d",
             graft_cpu_primitive_name(pd), (int)s->strips, (int)s->slices);
    GRAFT_TRY(graft_cpu_primitive_init(&s->primitive, k->d->engine, pd, arg, args, e));
    dnnl_memory_desc_t md = packed_md(k);
    k->info.packed_bytes[GRAFT_CONV_W] = dnnl_memory_desc_get_size(&md);
    k->info.packing[GRAFT_CONV_W] = graft_cpu_packing_weights(&md);
out:
    if (pd) dnnl_primitive_desc_destroy(pd);
    return st;
}

static void finish(graft_kernel *k)
{
    winograd *s = k->state;
    if (s) graft_cpu_primitive_finish(&s->primitive);
}

static graft_status pack(graft_kernel *k, int32_t input, graft_dtype t, const void *src, void *dst)
{
    dnnl_memory_desc_t md = packed_md(k);
    (void)input;
    return graft_cpu_pack_weights(k->d, &md, 0, t, src, dst);
}

/* One strip of a launch, and one slice of it. */
typedef struct strip {
    const graft_kernel *k;
    const winograd *s;
    int64_t first, channel; /* row and channel of the output */
    const void *x, *residual;
    const float *add;
    float *in, *out; /* blocks of channels */
    void *y;
} strip;

/* Row r of the strip's input, counted over all pictures, into blocks of channels. */
static void gather_row(const strip *p, int64_t r, float *pixel)
{
    const graft_op_desc *op = &p->k->op;
    const graft_tensor_desc *x = &op->in[GRAFT_CONV_X];
    int64_t channels = x->dim[3], blocks = channels / BLOCK, rows = p->s->rows + 2;
    int64_t plane = rows * p->s->width * BLOCK;
    int64_t n = r / rows, at = p->first + r % rows - op->attrs.pad_top;
    float *to = p->in + n * blocks * plane + r % rows * p->s->width * BLOCK;
    if (at < 0 || at >= p->s->height) {
        for (int64_t b = 0; b < blocks; b++)
            memset(to + b * plane, 0, (size_t)(p->s->width * BLOCK) * sizeof *to);
        return;
    }
    int shift = op->attrs.upsample == 2;
    for (int64_t c = 0; c < p->s->width; c++, to += BLOCK) {
        const void *from = graft_cpu_at(p->x, x->dtype,
                                        n * x->stride[0] + (at >> shift) * x->stride[1] +
                                            (c >> shift) * x->stride[2]);
        const float *wide = from;
        if (x->dtype != GRAFT_F32) {
            p->k->d->simd->act(GRAFT_ACT_NONE, from, x->dtype, pixel, GRAFT_F32, (size_t)channels);
            wide = pixel;
        }
        for (int64_t b = 0; b < blocks; b++)
            memcpy(to + b * plane, wide + b * BLOCK, BLOCK * sizeof *to);
    }
}

static void gather_part(void *ctx, int part, int parts)
{
    const strip *p = ctx;
    float pixel[MAX_CHANNELS];
    int64_t rows = p->k->op.out.dim[0] * (p->s->rows + 2), end = rows * (part + 1) / parts;
    for (int64_t r = rows * part / parts; r < end; r++) gather_row(p, r, pixel);
}

/* The slice's results out of their blocks, with what is left to do on them. */
static void scatter_part(void *ctx, int part, int parts)
{
    const strip *p = ctx;
    const graft_tensor_desc *y = &p->k->op.out;
    float wide[MAX_CHANNELS];
    int64_t channels = p->s->slice, plane = p->s->rows * y->dim[2];
    int64_t total = y->dim[0] * plane, end = total * (part + 1) / parts;
    for (int64_t i = total * part / parts; i < end; i++) {
        int64_t n = i / plane, h = p->first + i % plane / y->dim[2], w = i % y->dim[2];
        if (h >= y->dim[1]) continue; /* below the picture, in the last strip */
        const float *from = p->out + n * channels * plane + i % plane * BLOCK;
        void *to = graft_cpu_at_mut(
            p->y, y->dtype, n * y->stride[0] + h * y->stride[1] + w * y->stride[2] + p->channel);
        float *pixel = y->dtype == GRAFT_F32 ? to : wide;
        for (int64_t b = 0; b < channels / BLOCK; b++)
            memcpy(pixel + b * BLOCK, from + b * plane * BLOCK, BLOCK * sizeof *pixel);
        graft_cpu_conv2d_epilogue(p->k, (const int64_t[]){n, h, w, p->channel}, channels, p->add,
                                  p->residual, pixel, GRAFT_F32);
        if (y->dtype != GRAFT_F32)
            p->k->d->simd->act(GRAFT_ACT_NONE, wide, GRAFT_F32, to, y->dtype, (size_t)channels);
    }
}

typedef struct widening {
    const uint16_t *from;
    float *to;
    int64_t n;
    const graft_cpu_simd *simd;
} widening;

static void widen_part(void *ctx, int part, int parts)
{
    const widening *p = ctx;
    int64_t first = p->n * part / parts, end = p->n * (part + 1) / parts;
    p->simd->act(GRAFT_ACT_NONE, p->from + first, GRAFT_BF16, p->to + first, GRAFT_F32,
                 (size_t)(end - first));
}

static const float *weights(const graft_kernel *k, const void *packed, char *workspace)
{
    const winograd *s = k->state;
    if (k->op.in[GRAFT_CONV_X].dtype == GRAFT_F32) return packed;
    widening p = {packed, (float *)(void *)(workspace + s->at_weights),
                  graft_cpu_elements(&k->op.in[GRAFT_CONV_W]), k->d->simd};
    graft_cpu_parallel(graft_cpu_threads(k->d, p.n), widen_part, &p);
    return p.to;
}

static const float *channels(const graft_kernel *k, const void *const *in, char *workspace)
{
    const winograd *s = k->state;
    const graft_tensor_desc *add = &k->op.in[GRAFT_CONV_CHANNEL_ADD];
    if (!graft_cpu_present(add)) return NULL;
    float *rows = (float *)(void *)(workspace + s->at_add);
    for (int64_t i = 0; i < add->dim[0]; i++) {
        const void *from = graft_cpu_at(in[GRAFT_CONV_CHANNEL_ADD], add->dtype, i * add->stride[0]);
        k->d->simd->act(GRAFT_ACT_NONE, from, add->dtype, rows + i * add->dim[1], GRAFT_F32,
                        (size_t)add->dim[1]);
    }
    return rows;
}

/* All slices of strip p, whose input is gathered. */
static graft_status run_slices(graft_kernel *k, strip *p, const float *w, const float *bias,
                               char *ws)
{
    winograd *s = k->state;
    const graft_tensor_desc *y = &k->op.out;
    int64_t inputs = k->op.in[GRAFT_CONV_X].dim[3];
    int threads = graft_cpu_threads(k->d, y->dim[0] * s->rows * y->dim[2] * s->slice);
    graft_status st = GRAFT_OK;
    for (int64_t i = 0; i < s->slices && !st; i++) {
        p->channel = i * s->slice;
        const void *arg[GRAFT_CPU_ARGS] = {p->in, w + p->channel * inputs * 9, p->out};
        void *handle[GRAFT_CPU_ARGS];
        if (s->bias >= 0) arg[s->bias] = bias + p->channel;
        if (s->scratchpad >= 0) arg[s->scratchpad] = ws + s->at_scratchpad;
        memcpy(handle, arg, sizeof handle); /* oneDNN takes inputs as void* too */
        st = graft_cpu_primitive_run(&s->primitive, handle);
        if (!st) graft_cpu_parallel(threads, scatter_part, p);
    }
    return st;
}

static graft_status launch(graft_kernel *k, const void *const *in, void *out, void *workspace)
{
    winograd *s = k->state;
    char *ws = workspace;
    int64_t images = k->op.out.dim[0];
    int64_t inputs = images * (s->rows + 2) * s->width * k->op.in[GRAFT_CONV_X].dim[3];
    const float *w = weights(k, in[GRAFT_CONV_W], ws);
    strip p = {.k = k,
               .s = s,
               .x = in[GRAFT_CONV_X],
               .residual = in[GRAFT_CONV_RESIDUAL],
               .add = channels(k, in, ws),
               .in = (float *)(void *)(ws + s->at_input),
               .out = (float *)(void *)(ws + s->at_output),
               .y = out};
    graft_status st = GRAFT_OK;
    for (int64_t i = 0; i < s->strips && !st; i++) {
        p.first = i * s->rows;
        graft_cpu_parallel(graft_cpu_threads(k->d, inputs), gather_part, &p);
        st = run_slices(k, &p, w, in[GRAFT_CONV_BIAS], ws);
    }
    return st;
}

static graft_status check(graft_device *d, const graft_op_desc *op, graft_err *e)
{
    graft_status st = graft_cpu_conv2d_check(op, e);
    if (!st && !graft_cpu_has_winograd(d, op))
        st = graft_fail(e, GRAFT_E_UNSUPPORTED, "conv2d: no Winograd");
    return st;
}

const graft_cpu_op graft_cpu_op_conv2d_winograd = {check, init, finish, pack, launch, NULL};
