#include <string.h>

#include "kernels/quant.h"
#include "kernels/ref/ref.h"

static graft_status check_extras(const graft_op_desc *d, graft_err *e)
{
    const graft_tensor_desc *add = &d->in[GRAFT_CONV_CHANNEL_ADD], *out = &d->out;
    const graft_tensor_desc *residual = &d->in[GRAFT_CONV_RESIDUAL];
    graft_status st = graft_ref_check_vector(&d->in[GRAFT_CONV_BIAS], out->dim[3], "bias", e);
    if (!st && graft_ref_present(add)) {
        st = graft_ref_check_f32(add, "channel_add", e);
        if (!st) st = graft_ref_check_rank(add, 2, "channel_add", e);
        if (!st) st = graft_ref_check_dim(add->dim[0], out->dim[0], "batch of channel_add", e);
        if (!st) st = graft_ref_check_dim(add->dim[1], out->dim[3], "channels of channel_add", e);
    }
    if (!st && graft_ref_present(residual)) {
        st = graft_ref_check_f32(residual, "residual", e);
        if (!st) st = graft_ref_check_same_shape(residual, out, "residual and out", e);
    }
    if (!st) st = graft_ref_check_act(d->attrs.act, e);
    return st;
}

/* Output rows (or columns) for `size` input rows. */
static graft_status check_extent(int64_t out, int64_t size, int64_t before, int64_t after,
                                 int64_t kernel, int64_t stride, const char *what, graft_err *e)
{
    if (kernel < 1 || stride < 1 || before < 0 || after < 0)
        return graft_fail(e, GRAFT_E_ARG, "%s: kernel %lld, stride %lld, padding %lld and %lld",
                          what, (long long)kernel, (long long)stride, (long long)before,
                          (long long)after);
    int64_t span = size + before + after - kernel;
    if (span < 0) return graft_fail(e, GRAFT_E_ARG, "%s: the kernel is larger than x", what);
    return graft_ref_check_dim(out, span / stride + 1, what, e);
}

static graft_status check_upsample(const graft_op_desc *d, graft_err *e)
{
    const graft_attrs *a = &d->attrs;
    const graft_tensor_desc *x = &d->in[GRAFT_CONV_X];
    if (a->upsample == 0 || a->upsample == 1) return GRAFT_OK;
    if (a->upsample != 2)
        return graft_fail(e, GRAFT_E_UNSUPPORTED, "upsample by %d", (int)a->upsample);
    if (a->up_h < 1 || a->up_w < 1 || a->up_h > 2 * x->dim[1] || a->up_w > 2 * x->dim[2])
        return graft_fail(e, GRAFT_E_ARG, "upsample to %d x %d from %lld x %lld", (int)a->up_h,
                          (int)a->up_w, (long long)x->dim[1], (long long)x->dim[2]);
    return GRAFT_OK;
}

static graft_status check(const graft_op_desc *d, graft_err *e)
{
    const graft_attrs *a = &d->attrs;
    const graft_tensor_desc *x = &d->in[GRAFT_CONV_X], *w = &d->in[GRAFT_CONV_W], *out = &d->out;
    graft_status st = graft_ref_check_f32(x, "x", e);
    if (!st) st = graft_ref_check_f32(out, "out", e);
    if (!st && !w->constant) st = graft_fail(e, GRAFT_E_UNSUPPORTED, "w is not constant");
    if (!st) st = graft_ref_check_rank(x, 4, "x", e);
    if (!st) st = graft_ref_check_rank(w, 4, "w", e);
    if (!st) st = graft_ref_check_rank(out, 4, "out", e);
    if (!st) st = graft_ref_check_dim(w->dim[1], x->dim[3], "channels of w", e);
    if (!st) st = graft_ref_check_dim(w->dim[2], a->kernel_h, "kernel height of w", e);
    if (!st) st = graft_ref_check_dim(w->dim[3], a->kernel_w, "kernel width of w", e);
    if (!st) st = graft_ref_check_dim(out->dim[0], x->dim[0], "batch of out", e);
    if (!st) st = graft_ref_check_dim(out->dim[3], w->dim[0], "channels of out", e);
    if (!st) st = check_upsample(d, e);
    bool up = a->upsample == 2;
    if (!st)
        st = check_extent(out->dim[1], up ? a->up_h : x->dim[1], a->pad_top, a->pad_bottom,
                          a->kernel_h, a->stride_h, "height of out", e);
    if (!st)
        st = check_extent(out->dim[2], up ? a->up_w : x->dim[2], a->pad_left, a->pad_right,
                          a->kernel_w, a->stride_w, "width of out", e);
    if (!st) st = check_extras(d, e);
    return st;
}

/* w(O,C,kh,kw) to (kh,kw,C,O): the inner loop runs over output channels. */
static bool reorder(const graft_op_desc *d, int32_t input, const float *src, float *dst)
{
    if (input != GRAFT_CONV_W) return false;
    const int64_t *dim = d->in[GRAFT_CONV_W].dim;
    if (!src) return true;
    int64_t channels = dim[1], taps = dim[2] * dim[3];
    for (int64_t tap = 0; tap < taps; tap++)
        for (int64_t c = 0; c < channels; c++)
            for (int64_t o = 0; o < dim[0]; o++)
                dst[(tap * channels + c) * dim[0] + o] = src[(o * channels + c) * taps + tap];
    return true;
}

/* The pixel of x that tap (i,j) of output pixel (r,c) reads, NULL in the padding. */
static const float *pixel_of_tap(const graft_op_desc *d, const float *x, int64_t r, int64_t c,
                                 int64_t i, int64_t j)
{
    const graft_attrs *a = &d->attrs;
    const graft_tensor_desc *t = &d->in[GRAFT_CONV_X];
    bool up = a->upsample == 2;
    int64_t row = r * a->stride_h - a->pad_top + i, col = c * a->stride_w - a->pad_left + j;
    if (row < 0 || row >= (up ? a->up_h : t->dim[1])) return NULL;
    if (col < 0 || col >= (up ? a->up_w : t->dim[2])) return NULL;
    return x + (up ? row / 2 : row) * t->stride[1] + (up ? col / 2 : col) * t->stride[2];
}

/* Bias and all taps of `count` pixels of row r, from column c on, into acc[]. Pixels whose tap lies
 * in the padding are left out of that tap. */
static void add_taps(const graft_op_desc *d, const void *const *in, const float *x, int64_t r,
                     int64_t c, int count, float *const *acc)
{
    const graft_attrs *a = &d->attrs;
    const float *w = in[GRAFT_CONV_W], *bias = in[GRAFT_CONV_BIAS];
    int64_t channels = d->in[GRAFT_CONV_X].dim[3], n = d->out.dim[3];
    for (int p = 0; p < count; p++)
        for (int64_t o = 0; o < n; o++) acc[p][o] = bias ? bias[o] : 0;
    for (int64_t i = 0; i < a->kernel_h; i++)
        for (int64_t j = 0; j < a->kernel_w; j++) {
            const float *from[GRAFT_REF_ROW_BLOCK];
            float *to[GRAFT_REF_ROW_BLOCK];
            int used = 0;
            for (int p = 0; p < count; p++) {
                from[used] = pixel_of_tap(d, x, r, c + p, i, j);
                to[used] = acc[p];
                used += from[used] != NULL;
            }
            graft_ref_multiply_add(to, from, used, channels,
                                   w + (i * a->kernel_w + j) * channels * n, n, n);
        }
}

static void finish_pixel(const graft_op_desc *d, const float *channel_add, const float *residual,
                         float *y)
{
    int64_t n = d->out.dim[3];
    if (channel_add)
        for (int64_t o = 0; o < n; o++) y[o] += channel_add[o];
    if (residual)
        for (int64_t o = 0; o < n; o++) y[o] += residual[o];
    graft_ref_act_row(d->attrs.act, y, n);
}

static const float *batch_of(const graft_op_desc *d, const void *const *in, int32_t input,
                             int64_t b)
{
    const graft_tensor_desc *t = &d->in[input];
    return graft_ref_present(t) ? (const float *)in[input] + b * t->stride[0] : NULL;
}

static void run_row(const graft_op_desc *d, const void *const *in, const float *x, int64_t b,
                    int64_t r, float *y)
{
    const graft_tensor_desc *residual = &d->in[GRAFT_CONV_RESIDUAL];
    const float *channel_add = batch_of(d, in, GRAFT_CONV_CHANNEL_ADD, b);
    const float *add = batch_of(d, in, GRAFT_CONV_RESIDUAL, b);
    int64_t width = d->out.dim[2];
    for (int64_t c = 0; c < width; c += GRAFT_REF_ROW_BLOCK) {
        int count = (int)(width - c < GRAFT_REF_ROW_BLOCK ? width - c : GRAFT_REF_ROW_BLOCK);
        float *acc[GRAFT_REF_ROW_BLOCK];
        for (int p = 0; p < count; p++) acc[p] = y + (c + p) * d->out.stride[2];
        add_taps(d, in, x, r, c, count, acc);
        for (int p = 0; p < count; p++)
            finish_pixel(d, channel_add,
                         add ? add + r * residual->stride[1] + (c + p) * residual->stride[2] : NULL,
                         acc[p]);
    }
}

/* One quantized picture, dense; or all weights, unpacked, and one row of them. */
static uint64_t workspace_floats(const graft_op_desc *d)
{
    const int64_t *x = d->in[GRAFT_CONV_X].dim, *w = d->in[GRAFT_CONV_W].dim;
    int64_t n = w[1] * w[2] * w[3];
    if (d->attrs.quant == GRAFT_QUANT_INT4)
        return (uint64_t)(w[0] * n + graft_quant4_groups(n) * GRAFT_QUANT_GROUP);
    return graft_quant_is_8(d->attrs.quant) ? (uint64_t)(x[1] * x[2] * x[3]) : 0;
}

/* Packed weights (O,C,kh,kw) of 4 bits in the order that reorder() gives. */
static void unpack(const graft_op_desc *d, const void *packed, float *w)
{
    const int64_t *dim = d->in[GRAFT_CONV_W].dim;
    int64_t taps = dim[2] * dim[3], n = dim[1] * taps, groups = graft_quant4_groups(n);
    const uint8_t *level = packed;
    const float *scale = graft_quant4_scales(packed, dim[0], n);
    float *row = w + dim[0] * n;
    for (int64_t o = 0; o < dim[0]; o++) {
        for (int64_t g = 0; g < groups; g++, level += GRAFT_QUANT_GROUP_BYTES)
            graft_quant4_unpack(level, *scale++, row + g * GRAFT_QUANT_GROUP);
        for (int64_t i = 0; i < n; i++) w[(i % taps * dim[1] + i / taps) * dim[0] + o] = row[i];
    }
}

static void quantize_picture(graft_quant q, const graft_tensor_desc *t, const float *x, float *y)
{
    float most = 0;
    int64_t width = t->dim[2], n = t->dim[3];
    for (int64_t i = 0; i < t->dim[1] * width; i++)
        most = fmaxf(
            most, graft_quant_absmax(x + i / width * t->stride[1] + i % width * t->stride[2], n));
    for (int64_t i = 0; i < t->dim[1] * width; i++)
        graft_quant8_snap(q, x + i / width * t->stride[1] + i % width * t->stride[2], y + i * n, n,
                          most);
}

static void run(const graft_op_desc *given, const void *const *packed, void *out, float *workspace)
{
    graft_op_desc d = *given;
    const void *in[GRAFT_MAX_INPUTS];
    memcpy(in, packed, (GRAFT_CONV_RESIDUAL + 1) * sizeof *in);
    if (d.attrs.quant == GRAFT_QUANT_INT4) {
        unpack(&d, packed[GRAFT_CONV_W], workspace);
        in[GRAFT_CONV_W] = workspace;
    }
    bool quant = graft_quant_is_8(d.attrs.quant);
    if (quant) graft_ref_make_dense(&d.in[GRAFT_CONV_X]);
    for (int64_t b = 0; b < d.out.dim[0]; b++) {
        const float *x = batch_of(given, in, GRAFT_CONV_X, b);
        if (quant) {
            quantize_picture(d.attrs.quant, &given->in[GRAFT_CONV_X], x, workspace);
            x = workspace;
        }
        for (int64_t r = 0; r < d.out.dim[1]; r++)
            run_row(&d, in, x, b, r, (float *)out + b * d.out.stride[0] + r * d.out.stride[1]);
    }
}

const graft_ref_op graft_ref_op_CONV2D = {
    .check = check,
    .run = GRAFT_REF_CODE(run),
    .workspace = GRAFT_REF_CODE(workspace_floats),
    .reorder = GRAFT_REF_CODE(reorder),
    .inputs = 5,
    .optional = 1u << GRAFT_CONV_BIAS | 1u << GRAFT_CONV_CHANNEL_ADD | 1u << GRAFT_CONV_RESIDUAL,
};
