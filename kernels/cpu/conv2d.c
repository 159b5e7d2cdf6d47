/* CONV2D by oneDNN, channels last.
 *
 * bias, residual and act run inside the primitive. channel_add has a value per picture and channel,
 * which oneDNN cannot add fast: it goes into the bias, one picture a run, or where pictures are
 * small, so that reading the weights for each would cost more, into a pass over the result. */
#include <stdio.h>
#include <string.h>

#include "kernels/cpu/conv2d.h"

#define CHANNELS 32 /* that matrix instructions of our own are worth it for */

/* Who adds a residual: the primitive, or a pass over its result. Others have files of their own. */
typedef enum variant_kind {
    VARIANT_FUSED,
    VARIANT_EPILOGUE,
    VARIANT_WINOGRAD,
    VARIANT_TILES
} variant_kind;

typedef struct conv_state {
    graft_cpu_primitive primitive;
    int64_t images, batch; /* runs of the primitive, pictures in each */
    int64_t height, width; /* of the input as the primitive sees it */
    int bias, add_to_bias, own_epilogue, copy_input, copy_output;
    int scratchpad, post_op;                            /* places among the arguments, or -1 */
    size_t at_scratchpad, at_input, at_bias, at_output; /* in the workspace */
} conv_state;

static graft_status check_shapes(const graft_op_desc *op, graft_err *e)
{
    const graft_attrs *a = &op->attrs;
    const graft_tensor_desc *x = &op->in[GRAFT_CONV_X], *w = &op->in[GRAFT_CONV_W], *y = &op->out;
    int64_t height, width;
    if (!w->constant) return graft_fail(e, GRAFT_E_UNSUPPORTED, "conv2d: w is not constant");
    if (w->dim[1] != x->dim[3])
        return graft_fail(e, GRAFT_E_ARG, "conv2d: x has %lld channels, w wants %lld",
                          (long long)x->dim[3], (long long)w->dim[1]);
    if ((a->kernel_h && a->kernel_h != w->dim[2]) || (a->kernel_w && a->kernel_w != w->dim[3]))
        return graft_fail(e, GRAFT_E_ARG, "conv2d: kernel %dx%d does not match w", (int)a->kernel_h,
                          (int)a->kernel_w);
    if (a->stride_h < 1 || a->stride_w < 1 || a->pad_top < 0 || a->pad_left < 0 ||
        a->pad_bottom < 0 || a->pad_right < 0)
        return graft_fail(e, GRAFT_E_ARG, "conv2d: stride below 1 or padding below 0");
    if ((a->upsample && a->upsample != 1 && a->upsample != 2) || a->up_h < 0 || a->up_w < 0)
        return graft_fail(e, GRAFT_E_ARG, "conv2d: upsample %d must be 0, 1 or 2",
                          (int)a->upsample);
    graft_cpu_conv2d_input_size(op, &height, &width);
    if (a->upsample == 2 && (height > 2 * x->dim[1] || width > 2 * x->dim[2]))
        return graft_fail(e, GRAFT_E_ARG, "conv2d: up_h x up_w is larger than the doubled picture");
    int64_t over_h = height + a->pad_top + a->pad_bottom - w->dim[2];
    int64_t over_w = width + a->pad_left + a->pad_right - w->dim[3];
    if (over_h < 0 || over_w < 0 || y->dim[0] != x->dim[0] ||
        y->dim[1] != over_h / a->stride_h + 1 || y->dim[2] != over_w / a->stride_w + 1 ||
        y->dim[3] != w->dim[0])
        return graft_fail(e, GRAFT_E_ARG, "conv2d: the output's shape does not follow");
    if (!graft_act_is_pointwise(a->act))
        return graft_fail(e, GRAFT_E_UNSUPPORTED, "conv2d: act %d", (int)a->act);
    return GRAFT_OK;
}

graft_status graft_cpu_conv2d_check(const graft_op_desc *op, graft_err *e)
{
    graft_status st;
    const graft_tensor_desc *x = &op->in[GRAFT_CONV_X], *y = &op->out;
    const graft_tensor_desc *add = &op->in[GRAFT_CONV_CHANNEL_ADD];
    const graft_tensor_desc *residual = &op->in[GRAFT_CONV_RESIDUAL];
    GRAFT_TRY(graft_cpu_check_float(x, 4, "conv2d: x", e));
    GRAFT_TRY(graft_cpu_check_float(&op->in[GRAFT_CONV_W], 4, "conv2d: w", e));
    GRAFT_TRY(graft_cpu_check_float(y, 4, "conv2d: output", e));
    GRAFT_TRY(check_shapes(op, e));
    GRAFT_TRY(graft_cpu_check_vector(&op->in[GRAFT_CONV_BIAS], y->dim[3], 1, "conv2d: bias", e));
    if (graft_cpu_present(add)) {
        GRAFT_TRY(graft_cpu_check_float(add, 2, "conv2d: channel_add", e));
        if (add->dim[0] != y->dim[0] || add->dim[1] != y->dim[3])
            return graft_fail(e, GRAFT_E_ARG, "conv2d: channel_add must be (N, O)");
    }
    if (graft_cpu_present(residual)) {
        GRAFT_TRY(graft_cpu_check_float(residual, 4, "conv2d: residual", e));
        GRAFT_TRY(graft_cpu_check_same(residual, y, "conv2d: residual and output", e));
    }
    GRAFT_TRY(graft_cpu_check_absent(op, GRAFT_CONV_RESIDUAL + 1, e));
    if (x->constant || y->constant)
        return graft_fail(e, GRAFT_E_UNSUPPORTED, "conv2d: x is constant");
out:
    return st;
}

/* Fills the decisions of `s` that do not depend on the primitive. */
static void choose(const graft_op_desc *op, variant_kind kind, conv_state *s)
{
    const graft_tensor_desc *y = &op->out, *residual = &op->in[GRAFT_CONV_RESIDUAL];
    int add = graft_cpu_present(&op->in[GRAFT_CONV_CHANNEL_ADD]);
    graft_cpu_conv2d_input_size(op, &s->height, &s->width);
    int loose = graft_cpu_present(residual) &&
                (kind != VARIANT_FUSED || !graft_cpu_is_dense(residual) || residual->constant);
    s->add_to_bias = add && !loose && (y->dim[0] == 1 || y->dim[1] * y->dim[2] >= 1024);
    s->own_epilogue = loose || (add && !s->add_to_bias);
    s->batch = s->add_to_bias ? 1 : y->dim[0];
    s->images = y->dim[0] / s->batch;
    s->bias = s->add_to_bias || graft_cpu_present(&op->in[GRAFT_CONV_BIAS]);
    s->copy_input = op->attrs.upsample == 2 || !graft_cpu_is_dense(&op->in[GRAFT_CONV_X]);
    s->copy_output = !graft_cpu_is_dense(y);
}

static graft_status image_md(dnnl_memory_desc_t *out, const conv_state *s, int64_t h, int64_t w,
                             int64_t c, graft_dtype t, graft_err *e)
{
    const int64_t dim[4] = {s->batch, c, h, w}, stride[4] = {h * w * c, 1, w * c, c};
    return graft_cpu_md(out, 4, dim, stride, t, e);
}

static graft_status describe(graft_device *d, const graft_op_desc *op, const conv_state *s,
                             dnnl_primitive_desc_t *pd, bool *passed, graft_err *e)
{
    graft_status st;
    const graft_attrs *a = &op->attrs;
    const graft_tensor_desc *y = &op->out, *w = &op->in[GRAFT_CONV_W];
    const graft_tensor_desc *residual = &op->in[GRAFT_CONV_RESIDUAL];
    const dnnl_dims_t stride = {a->stride_h, a->stride_w}, before = {a->pad_top, a->pad_left};
    /* Rows that no output reads are allowed to us and not to oneDNN: padding there may be negative.
     */
    const dnnl_dims_t after = {(y->dim[1] - 1) * a->stride_h + w->dim[2] - s->height - a->pad_top,
                               (y->dim[2] - 1) * a->stride_w + w->dim[3] - s->width - a->pad_left};
    graft_dtype t = op->in[GRAFT_CONV_X].dtype;
    dnnl_memory_desc_t x_md, w_md, b_md, y_md, r_md;
    dnnl_primitive_attr_t attr = NULL;
    dnnl_convolution_desc_t cd;
    int fused = graft_cpu_present(residual) && !s->own_epilogue;
    GRAFT_TRY(image_md(&x_md, s, s->height, s->width, w->dim[1], t, e));
    GRAFT_TRY(image_md(&y_md, s, y->dim[1], y->dim[2], y->dim[3], y->dtype, e));
    GRAFT_TRY(graft_cpu_md(&w_md, 4, w->dim, NULL, t, e));
    if (s->bias) GRAFT_TRY(graft_cpu_md(&b_md, 1, &w->dim[0], (int64_t[]){1}, GRAFT_F32, e));
    if (fused) GRAFT_TRY(image_md(&r_md, s, y->dim[1], y->dim[2], y->dim[3], residual->dtype, e));
    GRAFT_TRY(graft_cpu_attr_create(&attr, fused ? &r_md : NULL,
                                    s->own_epilogue ? GRAFT_ACT_NONE : a->act, e));
    st = graft_cpu_dnnl_fail(dnnl_convolution_forward_desc_init(
                                 &cd, dnnl_forward_inference, dnnl_convolution_direct, &x_md, &w_md,
                                 s->bias ? &b_md : NULL, &y_md, stride, before, after),
                             "conv2d", e);
    if (!st)
        st =
            graft_cpu_dnnl_fail(graft_cpu_conv2d_create(d, op, &cd, attr, pd, passed), "conv2d", e);
out:
    if (attr) dnnl_primitive_attr_destroy(attr);
    return st;
}

/* oneDNN 2.6.3 has two convolutions that add a residual wrongly: the one through gemm, which reads
 * it at the offsets of its own blocks, and the one of 1 x 1 in bfloat16, for odd numbers of inputs
 * and many pictures' sizes. */
static bool adds_wrongly(const graft_op_desc *op, const_dnnl_primitive_desc_t pd)
{
    const char *name = graft_cpu_primitive_name(pd);
    if (strstr(name, "gemm:")) return true;
    return strstr(name, "bf16_1x1") && op->in[GRAFT_CONV_W].dim[1] % 2;
}

/* The primitive of a variant. Where the residual would be added wrongly it is always ours, and
 * where the best convolution that adds it is not right, as the best that does not is the faster
 * one. */
static graft_status plan(graft_device *d, const graft_op_desc *op, variant_kind kind, conv_state *s,
                         dnnl_primitive_desc_t *pd, graft_err *e)
{
    graft_status st;
    bool passed;
    choose(op, kind, s);
    GRAFT_TRY(describe(d, op, s, pd, &passed, e));
    if (graft_cpu_present(&op->in[GRAFT_CONV_RESIDUAL]) && !s->own_epilogue &&
        (passed || adds_wrongly(op, *pd))) {
        dnnl_primitive_desc_destroy(*pd);
        *pd = NULL;
        choose(op, VARIANT_EPILOGUE, s);
        GRAFT_TRY(describe(d, op, s, pd, &passed, e));
    }
out:
    return st;
}

/* Whether oneDNN has nothing for it. */
static bool only_winograd(const graft_op_desc *op)
{
    return op->in[GRAFT_CONV_X].dtype == GRAFT_BF16 && !graft_cpu_multiplies_bf16() &&
           graft_cpu_has_winograd(op);
}

/* Counts the variants and finds the one asked for. float32 prefers the pass: with it oneDNN takes
 * its better convolution; bfloat16 would round once more. */
static variant_kind find_variant(graft_kernel *k, int32_t variant)
{
    variant_kind kind[4];
    int n = 0, f32 = k->op.out.dtype == GRAFT_F32, first = graft_cpu_prefers_winograd(&k->op);
    int tiles = graft_cpu_has_conv2d_tiles(k->d, &k->op);
    int many = k->op.in[GRAFT_CONV_W].dim[1] >= CHANNELS;
    k->info.variant_count = 1;
    k->info.variant_index = 0;
    if (only_winograd(&k->op)) return VARIANT_WINOGRAD;
    if (tiles && many) kind[n++] = VARIANT_TILES;
    if (first) kind[n++] = VARIANT_WINOGRAD;
    kind[n++] = f32 ? VARIANT_EPILOGUE : VARIANT_FUSED;
    if (graft_cpu_present(&k->op.in[GRAFT_CONV_RESIDUAL]))
        kind[n++] = f32 ? VARIANT_FUSED : VARIANT_EPILOGUE;
    if (!first && graft_cpu_has_winograd(&k->op)) kind[n++] = VARIANT_WINOGRAD;
    if (tiles && !many) kind[n++] = VARIANT_TILES;
    k->info.variant_count = n;
    k->info.variant_index = variant < 0 || variant >= n ? 0 : variant;
    return kind[k->info.variant_index];
}

static graft_status check(graft_device *d, const graft_op_desc *op, graft_err *e)
{
    conv_state s;
    dnnl_primitive_desc_t pd = NULL;
    graft_status st = graft_cpu_conv2d_check(op, e);
    if (st) return st;
    /* oneDNN counts a picture's pixels, times 16 channels, in 32 bits, and divides by what is left
     * of them. A limit, not a lack: tiles are smaller. */
    for (int i = 0; i < 2; i++) {
        const int64_t *dim = i ? op->out.dim : op->in[GRAFT_CONV_X].dim;
        if (dim[1] > INT32_MAX / 16 / dim[2])
            return graft_fail(e, GRAFT_E_LIMIT,
                              "%lld x %lld pixels are more than oneDNN's convolutions count",
                              (long long)dim[2], (long long)dim[1]);
    }
    if (only_winograd(op)) return GRAFT_OK;
    memset(&s, 0, sizeof s);
    st = plan(d, op, VARIANT_FUSED, &s, &pd, e);
    if (!st) dnnl_primitive_desc_destroy(pd);
    return st;
}

static void lay_out(graft_kernel *k, conv_state *s, size_t scratchpad)
{
    const graft_tensor_desc *x = &k->op.in[GRAFT_CONV_X], *y = &k->op.out;
    size_t end = 0;
    s->at_scratchpad = graft_cpu_reserve(&end, scratchpad);
    if (graft_cpu_present(&k->op.in[GRAFT_CONV_CHANNEL_ADD]))
        s->at_bias = graft_cpu_reserve(&end, (size_t)(y->dim[0] * y->dim[3]) * sizeof(float));
    if (s->copy_input)
        s->at_input =
            graft_cpu_reserve(&end, (size_t)(s->batch * s->height * s->width * x->dim[3]) *
                                        graft_dtype_size(x->dtype));
    if (s->copy_output)
        s->at_output = graft_cpu_reserve(&end, (size_t)(graft_cpu_elements(y) / s->images) *
                                                   graft_dtype_size(y->dtype));
    k->info.workspace_bytes = end;
}

static int pass_needed(const graft_op_desc *op)
{
    return graft_cpu_present(&op->in[GRAFT_CONV_CHANNEL_ADD]) ||
           graft_cpu_present(&op->in[GRAFT_CONV_RESIDUAL]);
}

static graft_status pack_rows(graft_kernel *k, int32_t input, graft_dtype t, const void *src,
                              void *dst, int64_t first, int64_t rows)
{
    const conv_state *s = k->state;
    (void)input;
    return graft_cpu_pack_weight_rows(k->d, &s->primitive.md[1], 0, t, src, dst, first, rows);
}

static graft_status init(graft_kernel *k, int32_t variant, graft_err *e)
{
    graft_status st;
    graft_device *d = k->d;
    dnnl_primitive_desc_t pd = NULL;
    variant_kind kind = find_variant(k, variant);
    if (kind == VARIANT_WINOGRAD || kind == VARIANT_TILES) {
        k->type =
            kind == VARIANT_TILES ? &graft_cpu_op_conv2d_tiles : &graft_cpu_op_conv2d_winograd;
        return k->type->init(k, variant, e);
    }
    conv_state *s = k->state = graft_cpu_calloc(d, sizeof *s);
    if (!s) return graft_fail_nomem(e, "a convolution");
    k->pack_rows = pack_rows;
    graft_cpu_pack_as(k, GRAFT_CONV_BIAS, GRAFT_F32);
    graft_cpu_pack_as(k, GRAFT_CONV_CHANNEL_ADD, GRAFT_F32);
    GRAFT_TRY(plan(d, &k->op, kind, s, &pd, e));
    graft_cpu_pack_as(k, GRAFT_CONV_RESIDUAL, k->op.out.dtype);
    int args = 0, arg[GRAFT_CPU_ARGS];
    arg[args++] = DNNL_ARG_SRC;
    arg[args++] = DNNL_ARG_WEIGHTS;
    arg[args++] = DNNL_ARG_DST;
    if (s->bias) arg[args++] = DNNL_ARG_BIAS;
    size_t scratchpad =
        dnnl_memory_desc_get_size(dnnl_primitive_desc_query_md(pd, dnnl_query_scratchpad_md, 0));
    s->scratchpad = s->post_op = -1;
    if (scratchpad) arg[s->scratchpad = args++] = DNNL_ARG_SCRATCHPAD;
    if (graft_cpu_present(&k->op.in[GRAFT_CONV_RESIDUAL]) && !s->own_epilogue)
        arg[s->post_op = args++] = DNNL_ARG_ATTR_MULTIPLE_POST_OP(0) | DNNL_ARG_SRC_1;
    lay_out(k, s, scratchpad);
    if (strstr(graft_cpu_primitive_name(pd), "gemm:")) k->usual = INT64_MAX;
    snprintf(k->info.variant, sizeof k->info.variant, "dnnl %s%s", graft_cpu_primitive_name(pd),
             s->own_epilogue && pass_needed(&k->op) ? " + pass" : "");
    GRAFT_TRY(graft_cpu_primitive_init(&s->primitive, d->engine, pd, arg, args, e));
    k->info.packed_bytes[GRAFT_CONV_W] = dnnl_memory_desc_get_size(&s->primitive.md[1]);
    k->info.packing[GRAFT_CONV_W] = graft_cpu_packing_weights(&s->primitive.md[1], 0);
out:
    if (pd) dnnl_primitive_desc_destroy(pd);
    return st;
}

static void finish(graft_kernel *k)
{
    conv_state *s = k->state;
    if (s) graft_cpu_primitive_finish(&s->primitive);
}

const dnnl_memory_desc_t *graft_cpu_conv2d_layout(const graft_kernel *k, int *output_dim)
{
    const conv_state *s = k->state;
    *output_dim = 0;
    if (k->type == &graft_cpu_op_conv2d_winograd) return graft_cpu_winograd_layout(k);
    if (k->type == &graft_cpu_op_conv2d_tiles) return graft_cpu_conv2d_tiles_layout(k);
    return &s->primitive.md[1];
}

static graft_status pack(graft_kernel *k, int32_t input, graft_dtype t, const void *src, void *dst)
{
    const conv_state *s = k->state;
    (void)input;
    return graft_cpu_pack_weights(k->d, &s->primitive.md[1], 0, t, src, dst);
}

/* One part of a launch: copies between x and `to`, or the pass over `to`. */
typedef struct pixels {
    const graft_kernel *k;
    const conv_state *s;
    const char *x;
    char *to;
    int64_t image; /* the first */
    const float *add;
    const void *residual;
} pixels;

/* Rows of the (doubled) input. */
static void gather_part(void *p, int part, int parts)
{
    const pixels *g = p;
    const graft_tensor_desc *x = &g->k->op.in[GRAFT_CONV_X];
    size_t size = graft_dtype_size(x->dtype), bytes = (size_t)x->dim[3] * size;
    int shift = g->k->op.attrs.upsample == 2;
    int64_t rows = g->s->batch * g->s->height, end = rows * (part + 1) / parts;
    for (int64_t r = rows * part / parts; r < end; r++) {
        int64_t n = g->image + r / g->s->height, y = (r % g->s->height) >> shift;
        const char *from = g->x + (n * x->stride[0] + y * x->stride[1]) * (int64_t)size;
        char *to = g->to + (size_t)(r * g->s->width) * bytes;
        for (int64_t c = 0; c < g->s->width; c++)
            memcpy(to + (size_t)c * bytes, from + (c >> shift) * x->stride[2] * (int64_t)size,
                   bytes);
    }
}

/* channel_add, residual and act over the finished, dense convolution. */
static void epilogue_part(void *p, int part, int parts)
{
    const pixels *g = p;
    const graft_tensor_desc *y = &g->k->op.out;
    int64_t total = y->dim[0] * y->dim[1] * y->dim[2], end = total * (part + 1) / parts;
    for (int64_t i = total * part / parts; i < end; i++)
        graft_cpu_conv2d_epilogue(g->k,
                                  (const int64_t[]){i / y->dim[2] / y->dim[1],
                                                    i / y->dim[2] % y->dim[1], i % y->dim[2], 0},
                                  y->dim[3], g->add, g->residual,
                                  graft_cpu_at_mut(g->to, y->dtype, i * y->dim[3]), y->dtype);
}

/* Pixels of the workspace to their places. */
static void scatter_part(void *p, int part, int parts)
{
    const pixels *g = p;
    const graft_tensor_desc *y = &g->k->op.out;
    size_t size = graft_dtype_size(y->dtype);
    int64_t total = g->s->batch * y->dim[1] * y->dim[2], end = total * (part + 1) / parts;
    for (int64_t i = total * part / parts; i < end; i++) {
        int64_t w = i % y->dim[2], h = i / y->dim[2] % y->dim[1], n = i / y->dim[2] / y->dim[1];
        char *to = g->to + ((g->image + n) * y->stride[0] + h * y->stride[1] + w * y->stride[2]) *
                               (int64_t)size;
        memcpy(to, g->x + (size_t)(i * y->dim[3]) * size, (size_t)y->dim[3] * size);
    }
}

/* channel_add as float32 rows; with the bias in it where it takes the bias's place. */
static float *channels(const graft_kernel *k, const void *const *in, char *workspace)
{
    const conv_state *s = k->state;
    const graft_tensor_desc *add = &k->op.in[GRAFT_CONV_CHANNEL_ADD];
    if (!graft_cpu_present(add)) return NULL;
    float *rows = (float *)(void *)(workspace + s->at_bias);
    size_t n = (size_t)add->dim[1];
    for (int64_t i = 0; i < add->dim[0]; i++) {
        const void *from = graft_cpu_at(in[GRAFT_CONV_CHANNEL_ADD], add->dtype, i * add->stride[0]);
        float *to = rows + (size_t)i * n;
        k->d->simd->act(GRAFT_ACT_NONE, from, add->dtype, to, GRAFT_F32, n);
        if (s->add_to_bias && in[GRAFT_CONV_BIAS])
            k->d->simd->add(to, GRAFT_F32, in[GRAFT_CONV_BIAS], GRAFT_F32, to, GRAFT_F32, n);
    }
    return rows;
}

/* Pictures i * batch and on. */
static graft_status run_images(graft_kernel *k, int64_t i, const void *const *in, const float *rows,
                               char *out, char *ws)
{
    conv_state *s = k->state;
    const graft_tensor_desc *x = &k->op.in[GRAFT_CONV_X], *y = &k->op.out;
    const graft_tensor_desc *residual = &k->op.in[GRAFT_CONV_RESIDUAL];
    int64_t image = i * s->batch, result = graft_cpu_elements(y) / s->images;
    int64_t input = s->batch * s->height * s->width * x->dim[3];
    const void *arg[GRAFT_CPU_ARGS] = {NULL};
    void *handle[GRAFT_CPU_ARGS];
    char *to = s->copy_output ? ws + s->at_output : graft_cpu_at_mut(out, y->dtype, i * result);
    arg[0] = graft_cpu_at(in[GRAFT_CONV_X], x->dtype, image * x->stride[0]);
    if (s->copy_input) {
        pixels g = {k, s, in[GRAFT_CONV_X], ws + s->at_input, image, NULL, NULL};
        graft_cpu_parallel(graft_cpu_threads(k->d, input), gather_part, &g);
        arg[0] = ws + s->at_input;
    }
    arg[1] = in[GRAFT_CONV_W];
    arg[2] = to;
    if (s->bias)
        arg[3] = s->add_to_bias ? (const void *)(rows + i * y->dim[3]) : in[GRAFT_CONV_BIAS];
    if (s->scratchpad >= 0) arg[s->scratchpad] = ws + s->at_scratchpad;
    if (s->post_op >= 0)
        arg[s->post_op] = graft_cpu_at(in[GRAFT_CONV_RESIDUAL], residual->dtype, i * result);
    memcpy(handle, arg, sizeof handle); /* oneDNN takes inputs as void* too */
    graft_status st = graft_cpu_primitive_run(&s->primitive, handle);
    if (!st && s->own_epilogue) {
        pixels g = {k, s, NULL, to, 0, rows, in[GRAFT_CONV_RESIDUAL]};
        graft_cpu_parallel(graft_cpu_threads(k->d, result), epilogue_part, &g);
    }
    if (!st && s->copy_output) {
        pixels g = {k, s, to, out, image, rows, in[GRAFT_CONV_RESIDUAL]};
        graft_cpu_parallel(graft_cpu_threads(k->d, result), scatter_part, &g);
    }
    return st;
}

static graft_status launch(graft_kernel *k, const void *const *in, void *out, void *workspace)
{
    const conv_state *s = k->state;
    const float *rows = channels(k, in, workspace);
    graft_status st = GRAFT_OK;
    for (int64_t i = 0; i < s->images && !st; i++) st = run_images(k, i, in, rows, out, workspace);
    return st;
}

const graft_cpu_op graft_cpu_op_conv2d = {check, init, finish, pack, launch, NULL};
