#include "kernels/cuda/libs/dnn_graph.h"

#include <stdio.h>

static void check(graft_dnn_builder *b, cudnnStatus_t s, const char *what)
{
    char why[120] = "";
    if (s == CUDNN_STATUS_SUCCESS) return;
    b->f->last_error(why, sizeof why);
    b->status = s;
    snprintf(b->failed, sizeof b->failed, "%s: %s %s", what, b->f->status_text(s), why);
}

graft_dnn_desc graft_dnn_make(graft_dnn_builder *b, cudnnBackendDescriptorType_t type)
{
    graft_dnn_desc d = NULL;
    if (b->status) return NULL;
    if (b->n == (int)(sizeof b->made / sizeof *b->made)) {
        check(b, CUDNN_STATUS_INTERNAL_ERROR, "too many descriptors");
        return NULL;
    }
    check(b, b->f->make(type, &d), "a descriptor");
    if (!b->status) b->made[b->n++] = d;
    return d;
}

void graft_dnn_set(graft_dnn_builder *b, graft_dnn_desc d, cudnnBackendAttributeName_t name,
                   cudnnBackendAttributeType_t type, int64_t n, const void *value)
{
    char what[32];
    if (b->status) return;
    snprintf(what, sizeof what, "attribute %d", (int)name);
    check(b, b->f->set(d, name, type, n, value), what);
}

void graft_dnn_set_one(graft_dnn_builder *b, graft_dnn_desc d, cudnnBackendAttributeName_t name,
                       graft_dnn_desc value)
{
    graft_dnn_set(b, d, name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &value);
}

void graft_dnn_finalize(graft_dnn_builder *b, graft_dnn_desc d, const char *what)
{
    if (!b->status) check(b, b->f->finalize(d), what);
}

void graft_dnn_finish(graft_dnn_builder *b)
{
    while (b->n > 0) b->f->drop(b->made[--b->n]);
}

/* ------------------------------------------------------------------ tensors */

static cudnnDataType_t data_type(graft_dtype t)
{
    return t == GRAFT_F16       ? CUDNN_DATA_HALF
           : t == GRAFT_BF16    ? CUDNN_DATA_BFLOAT16
           : t == GRAFT_I8      ? CUDNN_DATA_INT8
           : t == GRAFT_I32     ? CUDNN_DATA_INT32
           : t == GRAFT_F8_E4M3 ? CUDNN_DATA_FP8_E4M3
                                : CUDNN_DATA_FLOAT;
}

enum { VIRTUAL = 0, BY_VALUE = -1 }; /* in the place of a tensor's number */

static graft_dnn_desc tensor(graft_dnn_builder *b, graft_dtype dtype, const int64_t *dim,
                             const int64_t *stride, int64_t number)
{
    cudnnDataType_t t = data_type(dtype);
    int64_t align = number == BY_VALUE || dtype == GRAFT_I32 ? 4 : 16;
    int64_t id = number > 0 ? number : 64 + b->n; /* unlike those of run()'s data */
    bool yes = true;
    graft_dnn_desc d = graft_dnn_make(b, CUDNN_BACKEND_TENSOR_DESCRIPTOR);
    if (number == BY_VALUE) id = 5;
    graft_dnn_set(b, d, CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &t);
    graft_dnn_set(b, d, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, 4, dim);
    graft_dnn_set(b, d, CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, 4, stride);
    graft_dnn_set(b, d, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 1, &id);
    graft_dnn_set(b, d, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, 1, &align);
    if (number == VIRTUAL)
        graft_dnn_set(b, d, CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, 1, &yes);
    if (number == BY_VALUE)
        graft_dnn_set(b, d, CUDNN_ATTR_TENSOR_IS_BY_VALUE, CUDNN_TYPE_BOOLEAN, 1, &yes);
    graft_dnn_finalize(b, d, "a tensor");
    return d;
}

/* Channels last of ours as N, C, H, W of theirs. */
static graft_dnn_desc picture(graft_dnn_builder *b, const graft_tensor_desc *t, graft_dtype dtype,
                              int64_t number)
{
    int64_t dim[4] = {t->dim[0], t->dim[3], t->dim[1], t->dim[2]};
    int64_t stride[4] = {t->stride[0], 1, t->stride[1], t->stride[2]};
    return tensor(b, dtype, dim, stride, number);
}

static graft_dnn_desc graph_of(graft_dnn_builder *b, int64_t n, const graft_dnn_desc *ops)
{
    graft_dnn_desc g = graft_dnn_make(b, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
    graft_dnn_set(b, g, CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR, n, ops);
    /* Newer versions find the device without it, older ones insist. */
    if (b->handle)
        graft_dnn_set(b, g, CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, 1, &b->handle);
    graft_dnn_finalize(b, g, "the operation graph");
    return b->status ? NULL : g;
}

/* ------------------------------------------------------------------ convolution */

static graft_dnn_desc convolution(graft_dnn_builder *b, const graft_attrs *a, graft_dnn_desc x,
                                  graft_dnn_desc w, graft_dnn_desc y)
{
    cudnnDataType_t compute = a->quant == GRAFT_QUANT_INT8 ? CUDNN_DATA_INT32 : CUDNN_DATA_FLOAT;
    cudnnConvolutionMode_t mode = CUDNN_CROSS_CORRELATION;
    int64_t two = 2, dilation[2] = {1, 1}, stride[2] = {a->stride_h, a->stride_w};
    int64_t before[2] = {a->pad_top, a->pad_left}, after[2] = {a->pad_bottom, a->pad_right};
    float alpha = 1, beta = 0;
    graft_dnn_desc c = graft_dnn_make(b, CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
    graft_dnn_set(b, c, CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &compute);
    graft_dnn_set(b, c, CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE, 1, &mode);
    graft_dnn_set(b, c, CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, CUDNN_TYPE_INT64, 1, &two);
    graft_dnn_set(b, c, CUDNN_ATTR_CONVOLUTION_DILATIONS, CUDNN_TYPE_INT64, 2, dilation);
    graft_dnn_set(b, c, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, CUDNN_TYPE_INT64, 2, stride);
    graft_dnn_set(b, c, CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, CUDNN_TYPE_INT64, 2, before);
    graft_dnn_set(b, c, CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, CUDNN_TYPE_INT64, 2, after);
    graft_dnn_finalize(b, c, "a convolution");
    graft_dnn_desc o = graft_dnn_make(b, CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR);
    graft_dnn_set_one(b, o, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X, x);
    graft_dnn_set_one(b, o, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W, w);
    graft_dnn_set_one(b, o, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y, y);
    graft_dnn_set_one(b, o, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC, c);
    graft_dnn_set(b, o, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA, CUDNN_TYPE_FLOAT, 1,
                  &alpha);
    graft_dnn_set(b, o, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA, CUDNN_TYPE_FLOAT, 1, &beta);
    graft_dnn_finalize(b, o, "a convolution's operation");
    return o;
}

static graft_dnn_desc pointwise(graft_dnn_builder *b, cudnnPointwiseMode_t mode, graft_dnn_desc x,
                                graft_dnn_desc other, graft_dnn_desc y)
{
    cudnnDataType_t compute = CUDNN_DATA_FLOAT;
    graft_dnn_desc p = graft_dnn_make(b, CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
    graft_dnn_set(b, p, CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, 1, &mode);
    graft_dnn_set(b, p, CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, 1, &compute);
    graft_dnn_finalize(b, p, "an operation on values");
    graft_dnn_desc o = graft_dnn_make(b, CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
    graft_dnn_set_one(b, o, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, p);
    graft_dnn_set_one(b, o, CUDNN_ATTR_OPERATION_POINTWISE_XDESC, x);
    graft_dnn_set_one(b, o, CUDNN_ATTR_OPERATION_POINTWISE_BDESC, other);
    graft_dnn_set_one(b, o, CUDNN_ATTR_OPERATION_POINTWISE_YDESC, y);
    graft_dnn_finalize(b, o, "an operation on values");
    return o;
}

static graft_dnn_desc addition(graft_dnn_builder *b, graft_dnn_desc x, graft_dnn_desc other,
                               graft_dnn_desc y)
{
    return pointwise(b, CUDNN_POINTWISE_ADD, x, other, y);
}

/* A scale for each pixel, although a picture has one: the kernels with Hopper's instructions take
 * a tensor (N, 1, H, W) and none of (N, 1, 1, 1). */
static graft_dnn_desc levels_graph(graft_dnn_builder *b, const graft_op_desc *op)
{
    const graft_tensor_desc *w = &op->in[GRAFT_CONV_W], *y = &op->out;
    const graft_tensor_desc *r = &op->in[GRAFT_CONV_RESIDUAL];
    bool residual = graft_cuda_present(r), bias = graft_cuda_present(&op->in[GRAFT_CONV_BIAS]);
    int64_t taps = w->dim[2] * w->dim[3], channels = w->dim[0], n = 0;
    int64_t w_stride[4] = {taps * w->dim[1], 1, w->dim[3] * w->dim[1], w->dim[1]};
    int64_t c_dim[4] = {1, channels, 1, 1}, c_stride[4] = {channels, 1, channels, channels};
    int64_t p_dim[4] = {y->dim[0], 1, y->dim[1], y->dim[2]};
    int64_t p_stride[4] = {y->dim[1] * y->dim[2], 1, y->dim[2], 1};
    graft_dnn_desc ops[5], to;
    bool fp8 = op->attrs.quant == GRAFT_QUANT_FP8;
    graft_dtype level = fp8 ? GRAFT_F8_E4M3 : GRAFT_I8, sum = fp8 ? GRAFT_F32 : GRAFT_I32;
    graft_dnn_desc x = picture(b, &op->in[GRAFT_CONV_X], level, 1);
    graft_dnn_desc weights = tensor(b, level, w->dim, w_stride, 2);
    graft_dnn_desc out = picture(b, y, y->dtype, 3), at = picture(b, y, sum, VIRTUAL);
    ops[n++] = convolution(b, &op->attrs, x, weights, at);
    to = picture(b, y, GRAFT_F32, VIRTUAL);
    graft_dnn_desc scale = tensor(b, GRAFT_F32, c_dim, c_stride, 6);
    ops[n++] = pointwise(b, CUDNN_POINTWISE_MUL, at, scale, to);
    at = to;
    to = bias || residual ? picture(b, y, GRAFT_F32, VIRTUAL) : out;
    graft_dnn_desc pixels = tensor(b, GRAFT_F32, p_dim, p_stride, 7);
    ops[n++] = pointwise(b, CUDNN_POINTWISE_MUL, at, pixels, to);
    at = to;
    if (bias) {
        to = residual ? picture(b, y, GRAFT_F32, VIRTUAL) : out;
        ops[n++] = addition(b, at, tensor(b, GRAFT_F32, c_dim, c_stride, 5), to);
        at = to;
    }
    if (residual) ops[n++] = addition(b, at, picture(b, r, y->dtype, 4), out);
    return graph_of(b, n, ops);
}

/* The residual before the bias: its precompiled kernels know this order only. */
graft_dnn_desc graft_dnn_conv_graph(graft_dnn_builder *b, const graft_op_desc *op)
{
    if (graft_dnn_of_levels(op)) return levels_graph(b, op);
    const graft_tensor_desc *w = &op->in[GRAFT_CONV_W], *r = &op->in[GRAFT_CONV_RESIDUAL];
    graft_dtype t = op->out.dtype;
    bool residual = graft_cuda_present(r), bias = graft_cuda_present(&op->in[GRAFT_CONV_BIAS]);
    int64_t taps = w->dim[2] * w->dim[3], channels = w->dim[0];
    int64_t w_stride[4] = {taps * w->dim[1], 1, w->dim[3] * w->dim[1], w->dim[1]};
    int64_t b_dim[4] = {1, channels, 1, 1}, b_stride[4] = {channels, 1, channels, channels};
    int64_t n = 0;
    graft_dnn_desc ops[3];
    graft_dnn_desc x = picture(b, &op->in[GRAFT_CONV_X], t, 1);
    graft_dnn_desc weights = tensor(b, t, w->dim, w_stride, 2);
    graft_dnn_desc out = picture(b, &op->out, t, 3), at = out;
    if (residual || bias) at = picture(b, &op->out, GRAFT_F32, VIRTUAL);
    ops[n++] = convolution(b, &op->attrs, x, weights, at);
    if (residual) {
        graft_dnn_desc to = bias ? picture(b, &op->out, GRAFT_F32, VIRTUAL) : out;
        ops[n++] = addition(b, at, picture(b, r, t, 4), to);
        at = to;
    }
    if (bias) ops[n++] = addition(b, at, tensor(b, t, b_dim, b_stride, 5), out);
    return graph_of(b, n, ops);
}

/* ------------------------------------------------------------------ attention */

enum { COUNT = 6 }; /* the number of that tensor */

/* How many keys count, of each entry of the batch. */
static void count_keys(graft_dnn_builder *b, graft_dnn_desc attention, int64_t batch)
{
    const int64_t dim[4] = {batch, 1, 1, 1}, stride[4] = {1, 1, 1, 1};
    graft_dnn_set_one(b, attention, CUDNN_ATTR_OPERATION_SDPA_FWD_SEQ_LEN_KVDESC,
                      tensor(b, GRAFT_I32, dim, stride, COUNT));
}

static graft_dnn_desc heads_of(graft_dnn_builder *b, const graft_tensor_desc *t, int64_t heads,
                               graft_dtype dtype, int64_t number)
{
    int64_t d = t->dim[2] / heads;
    int64_t dim[4] = {t->dim[0], heads, t->dim[1], d};
    int64_t stride[4] = {t->stride[0], d, t->stride[1], 1};
    return tensor(b, dtype, dim, stride, number);
}

graft_dnn_desc graft_dnn_attention_graph(graft_dnn_builder *b, const graft_op_desc *op)
{
    const int64_t one[4] = {1, 1, 1, 1};
    graft_dtype t = op->out.dtype;
    int64_t heads = op->attrs.heads;
    graft_dnn_desc q = heads_of(b, &op->in[0], heads, t, 1),
                   k = heads_of(b, &op->in[1], heads, t, 2);
    graft_dnn_desc v = heads_of(b, &op->in[2], heads, t, 3), y = heads_of(b, &op->out, heads, t, 4);
    graft_dnn_desc scale = tensor(b, GRAFT_F32, one, one, BY_VALUE);
    graft_dnn_desc o = graft_dnn_make(b, CUDNN_BACKEND_OPERATION_SDPA_FWD_DESCRIPTOR);
    graft_dnn_set_one(b, o, CUDNN_ATTR_OPERATION_SDPA_FWD_QDESC, q);
    graft_dnn_set_one(b, o, CUDNN_ATTR_OPERATION_SDPA_FWD_KDESC, k);
    graft_dnn_set_one(b, o, CUDNN_ATTR_OPERATION_SDPA_FWD_VDESC, v);
    graft_dnn_set_one(b, o, CUDNN_ATTR_OPERATION_SDPA_FWD_ODESC, y);
    graft_dnn_set_one(b, o, CUDNN_ATTR_OPERATION_SDPA_FWD_SCALEDESC, scale);
    if (graft_cuda_present(&op->in[GRAFT_ATTENTION_COUNT])) count_keys(b, o, op->out.dim[0]);
    graft_dnn_finalize(b, o, "an attention");
    return graph_of(b, 1, &o);
}
