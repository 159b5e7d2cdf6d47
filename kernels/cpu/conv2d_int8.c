/* CONV2D on int8 (kernels/quant.h), by oneDNN; matrix instructions of our own come first. */
#include <stdio.h>
#include <string.h>

#include "kernels/cpu/conv2d.h"
#include "kernels/cpu/int8.h"
#include "kernels/quant.h"

typedef struct state {
    graft_cpu_primitive primitive;
    int64_t height, width; /* of the input as the primitive sees it */
    int scratchpad;
    size_t at_scratchpad, at_input, at_scale, at_channel, at_acc; /* in the workspace */
} state;

static graft_status image_md(dnnl_memory_desc_t *out, int64_t n, int64_t h, int64_t w, int64_t c,
                             graft_dtype t, graft_err *e)
{
    const int64_t dim[4] = {n, c, h, w}, stride[4] = {h * w * c, 1, w * c, c};
    return graft_cpu_md(out, 4, dim, stride, t, e);
}

static graft_status describe(graft_device *d, const graft_op_desc *op, dnnl_primitive_desc_t *pd,
                             graft_err *e)
{
    graft_status st;
    const graft_attrs *a = &op->attrs;
    const graft_tensor_desc *y = &op->out, *w = &op->in[GRAFT_CONV_W];
    int64_t height, width;
    graft_cpu_conv2d_input_size(op, &height, &width);
    const dnnl_dims_t stride = {a->stride_h, a->stride_w}, before = {a->pad_top, a->pad_left};
    const dnnl_dims_t after = {(y->dim[1] - 1) * a->stride_h + w->dim[2] - height - a->pad_top,
                               (y->dim[2] - 1) * a->stride_w + w->dim[3] - width - a->pad_left};
    dnnl_memory_desc_t x_md, w_md, y_md;
    dnnl_primitive_attr_t attr = NULL;
    dnnl_convolution_desc_t cd;
    bool passed;
    GRAFT_TRY(image_md(&x_md, y->dim[0], height, width, w->dim[1], GRAFT_I8, e));
    GRAFT_TRY(image_md(&y_md, y->dim[0], y->dim[1], y->dim[2], y->dim[3], GRAFT_I32, e));
    GRAFT_TRY(graft_cpu_md(&w_md, 4, w->dim, NULL, GRAFT_I8, e));
    GRAFT_TRY(graft_cpu_attr_create(&attr, NULL, GRAFT_ACT_NONE, e));
    dnnl_status_t ds =
        dnnl_convolution_forward_desc_init(&cd, dnnl_forward_inference, dnnl_convolution_direct,
                                           &x_md, &w_md, NULL, &y_md, stride, before, after);
    if (!ds) ds = graft_cpu_conv2d_create(d, op, &cd, attr, pd, &passed);
    st = graft_cpu_dnnl_fail(ds, "int8 conv2d", e);
out:
    if (attr) dnnl_primitive_attr_destroy(attr);
    return st;
}

static graft_status check(graft_device *d, const graft_op_desc *op, graft_err *e)
{
    dnnl_primitive_desc_t pd = NULL;
    graft_status st = graft_cpu_conv2d_check(op, e);
    if (!st) st = describe(d, op, &pd, e);
    if (!st) dnnl_primitive_desc_destroy(pd);
    return st;
}

static graft_status init(graft_kernel *k, int32_t variant, graft_err *e)
{
    graft_status st;
    dnnl_primitive_desc_t pd = NULL;
    const graft_tensor_desc *y = &k->op.out, *w = &k->op.in[GRAFT_CONV_W];
    bool tiles = graft_cpu_has_conv2d_tiles(k->d, &k->op);
    k->info.variant_count = 1 + tiles;
    k->info.variant_index = variant == 1 && tiles;
    if (tiles && variant != 1) {
        k->type = &graft_cpu_op_conv2d_tiles;
        return k->type->init(k, variant, e);
    }
    state *s = k->state = graft_cpu_calloc(k->d, sizeof *s);
    if (!s) return graft_fail_nomem(e, "a convolution");
    graft_cpu_conv2d_input_size(&k->op, &s->height, &s->width);
    graft_cpu_pack_as(k, GRAFT_CONV_BIAS, GRAFT_F32);
    graft_cpu_pack_as(k, GRAFT_CONV_CHANNEL_ADD, GRAFT_F32);
    graft_cpu_pack_as(k, GRAFT_CONV_RESIDUAL, y->dtype);
    GRAFT_TRY(describe(k->d, &k->op, &pd, e));
    size_t end = 0, scratchpad = dnnl_memory_desc_get_size(
                        dnnl_primitive_desc_query_md(pd, dnnl_query_scratchpad_md, 0));
    int arg[4] = {DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST, DNNL_ARG_SCRATCHPAD};
    s->scratchpad = scratchpad > 0;
    s->at_scratchpad = graft_cpu_reserve(&end, (int64_t)scratchpad);
    s->at_input = graft_cpu_reserve(&end, y->dim[0] * s->height * s->width * w->dim[1]);
    s->at_scale =
        graft_cpu_reserve(&end, (y->dim[0] + GRAFT_CPU_INT8_PARTS) * (int64_t)sizeof(float));
    s->at_channel = graft_cpu_reserve(&end, y->dim[0] * y->dim[3] * (int64_t)sizeof(float));
    s->at_acc = graft_cpu_reserve(&end, graft_cpu_elements(y) * (int64_t)sizeof(int32_t));
    k->info.workspace_bytes = end;
    snprintf(k->info.variant, sizeof k->info.variant, "dnnl int8 %s", graft_cpu_primitive_name(pd));
    GRAFT_TRY(graft_cpu_primitive_init(&s->primitive, k->d->engine, pd, arg, 3 + s->scratchpad, e));
    k->info.packed_bytes[GRAFT_CONV_W] = graft_cpu_int8_bytes(&s->primitive.md[1], w->dim[0]);
    k->info.packing[GRAFT_CONV_W] = graft_cpu_int8_packing(&s->primitive.md[1], 0);
out:
    if (pd) dnnl_primitive_desc_destroy(pd);
    return st;
}

static void finish(graft_kernel *k)
{
    state *s = k->state;
    if (s) graft_cpu_primitive_finish(&s->primitive);
}

static graft_status pack(graft_kernel *k, int32_t input, graft_dtype t, const void *src, void *dst)
{
    const state *s = k->state;
    (void)input;
    return graft_cpu_int8_pack(k->d, &s->primitive.md[1], 0, t, src, dst);
}

typedef struct pixels {
    const graft_kernel *k;
    const void *x; /* of one picture */
    float inverse;
    int8_t *level;
} pixels;

/* Rows of the (doubled) picture. */
static void quantize_part(void *p, int part, int parts)
{
    const pixels *g = p;
    const state *s = g->k->state;
    const graft_tensor_desc *x = &g->k->op.in[GRAFT_CONV_X];
    int shift = g->k->op.attrs.upsample == 2;
    int64_t end = s->height * (part + 1) / parts, channels = x->dim[3];
    for (int64_t r = s->height * part / parts; r < end; r++)
        for (int64_t c = 0; c < s->width; c++) {
            int64_t at = (r >> shift) * x->stride[1] + (c >> shift) * x->stride[2];
            g->k->d->simd->to_s8(graft_cpu_at(g->x, x->dtype, at), x->dtype, g->inverse,
                                 g->level + (r * s->width + c) * channels, (size_t)channels);
        }
}

/* Every picture has a scale of its own, so that a batch is what its pictures are alone. */
static void quantize(const graft_kernel *k, const void *x, char *ws)
{
    const state *s = k->state;
    const graft_tensor_desc *d = &k->op.in[GRAFT_CONV_X];
    float *scale = (float *)(void *)(ws + s->at_scale), *each = scale + d->dim[0];
    int64_t size = s->height * s->width * d->dim[3];
    for (int64_t n = 0; n < d->dim[0]; n++) {
        pixels g = {k, graft_cpu_at(x, d->dtype, n * d->stride[0]), 0,
                    (int8_t *)ws + s->at_input + n * size};
        scale[n] = graft_quant_scale(graft_cpu_int8_most(k->d, d, g.x, each), 127.0f);
        g.inverse = graft_quant_inverse(scale[n]);
        graft_cpu_parallel(graft_cpu_threads(k->d, size), quantize_part, &g);
    }
}

static graft_status launch(graft_kernel *k, const void *const *in, void *out, void *workspace)
{
    state *s = k->state;
    char *ws = workspace;
    const graft_tensor_desc *y = &k->op.out, *add = &k->op.in[GRAFT_CONV_CHANNEL_ADD];
    float *channel = graft_cpu_present(add) ? (float *)(void *)(ws + s->at_channel) : NULL;
    for (int64_t n = 0; channel && n < y->dim[0]; n++)
        k->d->simd->act(GRAFT_ACT_NONE,
                        graft_cpu_at(in[GRAFT_CONV_CHANNEL_ADD], add->dtype, n * add->stride[0]),
                        add->dtype, channel + n * y->dim[3], GRAFT_F32, (size_t)y->dim[3]);
    quantize(k, in[GRAFT_CONV_X], ws);
    const void *arg[GRAFT_CPU_ARGS] = {ws + s->at_input, in[GRAFT_CONV_W], ws + s->at_acc,
                                       ws + s->at_scratchpad};
    void *handle[GRAFT_CPU_ARGS];
    memcpy(handle, arg, sizeof handle); /* oneDNN takes inputs as void* too */
    graft_status st = graft_cpu_primitive_run(&s->primitive, handle);
    graft_cpu_int8_rows done = {.k = k,
                                .acc = (int32_t *)(void *)(ws + s->at_acc),
                                .count = y->dim[0] * y->dim[1] * y->dim[2],
                                .wide = y->dim[3],
                                .weight_scale =
                                    graft_cpu_int8_scales(&s->primitive.md[1], in[GRAFT_CONV_W]),
                                .input_scale = (const float *)(const void *)(ws + s->at_scale),
                                .rows_per_scale = y->dim[1] * y->dim[2],
                                .bias = in[GRAFT_CONV_BIAS],
                                .channel = channel,
                                .residual = in[GRAFT_CONV_RESIDUAL],
                                .residual_desc = &k->op.in[GRAFT_CONV_RESIDUAL],
                                .out = out};
    if (!st) graft_cpu_int8_finish(&done);
    return st;
}

const graft_cpu_op graft_cpu_op_conv2d_int8 = {check, init, finish, pack, launch, NULL};
