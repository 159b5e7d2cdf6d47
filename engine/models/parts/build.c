#include "engine/models/parts/build.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>

graft_name graft_name_make(const char *fmt, ...)
{
    graft_name n;
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(n.text, sizeof n.text, fmt, ap);
    va_end(ap);
    return n;
}

int64_t graft_build_dim(const graft_build *b, graft_vid x, int i)
{
    return x < 0 ? 1 : b->g->value[x].dim[i];
}

static graft_vid weight(const graft_build *b, graft_name name, const char *suffix, int rank,
                        const int64_t *dim)
{
    graft_name full = graft_name_make("%s%s", name.text, suffix);
    return graft_graph_weight(b->g, full.text, rank, dim);
}

graft_vid graft_build_linear(const graft_build *b, graft_name name, graft_vid x, int32_t width,
                             bool bias)
{
    if (x < 0) return x;
    int64_t dim[2] = {width, b->g->value[x].dim[b->g->value[x].rank - 1]};
    const graft_vid weights = weight(b, name, ".weight", 2, dim);
    return graft_build_linear_by(b, x, weights,
                                 bias ? weight(b, name, ".bias", 1, dim) : GRAFT_NO_VALUE);
}

graft_vid graft_build_linear_by(const graft_build *b, graft_vid x, graft_vid weights,
                                graft_vid bias)
{
    graft_vid in[3] = {x, weights, bias};
    return x < 0 ? x : graft_graph_node(b->g, GRAFT_OP_LINEAR, NULL, in, 3, b->act_dtype);
}

static graft_vid conv_by(const graft_build *b, graft_name name, graft_vid x, graft_vid w,
                         graft_conv_spec spec, bool bias)
{
    if (x < 0 || w < 0) return GRAFT_NO_VALUE;
    int64_t dim[1] = {spec.channels};
    graft_attrs a = {.kernel_h = spec.kernel,
                     .kernel_w = spec.kernel,
                     .stride_h = spec.stride,
                     .stride_w = spec.stride,
                     .pad_top = spec.pad[0],
                     .pad_left = spec.pad[1],
                     .pad_bottom = spec.pad[2],
                     .pad_right = spec.pad[3]};
    graft_vid in[3] = {x, w, bias ? weight(b, name, ".bias", 1, dim) : GRAFT_NO_VALUE};
    return graft_graph_node(b->g, GRAFT_OP_CONV2D, &a, in, 3, b->act_dtype);
}

static graft_vid conv(const graft_build *b, graft_name name, graft_vid x, graft_conv_spec spec,
                      bool bias)
{
    if (x < 0) return x;
    if (spec.kernel == 1) return graft_build_linear(b, name, x, spec.channels, bias);
    int64_t dim[4] = {spec.channels, b->g->value[x].dim[3], spec.kernel, spec.kernel};
    return conv_by(b, name, x, weight(b, name, ".weight", 4, dim), spec, bias);
}

graft_vid graft_build_conv(const graft_build *b, graft_name name, graft_vid x, graft_conv_spec spec)
{
    return conv(b, name, x, spec, true);
}

graft_vid graft_build_conv_plain(const graft_build *b, graft_name name, graft_vid x,
                                 graft_conv_spec spec)
{
    return conv(b, name, x, spec, false);
}

graft_vid graft_build_conv3(const graft_build *b, graft_name name, graft_vid x, int32_t channels)
{
    return graft_build_conv(b, name, x, (graft_conv_spec){channels, 3, 1, {1, 1, 1, 1}});
}

graft_vid graft_build_conv3_of_last(const graft_build *b, graft_name name, graft_vid x,
                                    int32_t channels, int32_t pictures)
{
    if (x < 0) return x;
    const int64_t dim[4] = {channels, b->g->value[x].dim[3], 3, 3};
    const graft_name full = graft_name_make("%s.weight", name.text);
    return graft_build_conv3_by(b, name, x, graft_graph_weight_last(b->g, full.text, pictures, dim),
                                channels);
}

graft_vid graft_build_conv3_by(const graft_build *b, graft_name name, graft_vid x,
                               graft_vid weights, int32_t channels)
{
    return conv_by(b, name, x, weights, (graft_conv_spec){channels, 3, 1, {1, 1, 1, 1}}, true);
}

static graft_vid group_norm(const graft_build *b, graft_name name, graft_vid x, graft_vid moments,
                            int32_t groups, float eps)
{
    if (x < 0) return x;
    int64_t dim[1] = {b->g->value[x].dim[3]};
    graft_attrs a = {.groups = groups, .eps = eps};
    graft_vid in[4] = {x, weight(b, name, ".weight", 1, dim), weight(b, name, ".bias", 1, dim),
                       moments};
    return graft_graph_node(b->g, GRAFT_OP_GROUP_NORM, &a, in, 4, GRAFT_DTYPE_NONE);
}

graft_vid graft_build_group_norm(const graft_build *b, graft_name name, graft_vid x, float eps)
{
    return group_norm(b, name, x, GRAFT_NO_VALUE, 32, eps);
}

graft_vid graft_build_group_norm_of(const graft_build *b, graft_name name, graft_vid x,
                                    int32_t groups, float eps)
{
    return group_norm(b, name, x, GRAFT_NO_VALUE, groups, eps);
}

graft_vid graft_build_group_norm_given(const graft_build *b, graft_name name, graft_vid x,
                                       graft_vid moments, float eps)
{
    return group_norm(b, name, x, moments, 32, eps);
}

graft_vid graft_build_layer_norm(const graft_build *b, graft_name name, graft_vid x)
{
    return graft_build_layer_norm_of(b, name, x, GRAFT_LAYER_NORM_EPS);
}

graft_vid graft_build_layer_norm_of(const graft_build *b, graft_name name, graft_vid x, float eps)
{
    if (x < 0) return x;
    int64_t dim[1] = {b->g->value[x].dim[b->g->value[x].rank - 1]};
    graft_attrs a = {.eps = eps};
    graft_vid in[3] = {x, weight(b, name, ".weight", 1, dim), weight(b, name, ".bias", 1, dim)};
    return graft_graph_node(b->g, GRAFT_OP_LAYER_NORM, &a, in, 3, GRAFT_DTYPE_NONE);
}

static graft_vid rms_norm(const graft_build *b, graft_name weight, graft_vid x, int32_t heads,
                          float eps, bool more)
{
    if (x < 0) return x;
    const int64_t dim[1] = {b->g->value[x].dim[b->g->value[x].rank - 1] / heads};
    const graft_attrs a = {.eps = eps, .heads = heads};
    graft_vid in[2] = {
        x, (more ? graft_graph_weight_more : graft_graph_weight)(b->g, weight.text, 1, dim)};
    return graft_graph_node(b->g, GRAFT_OP_RMS_NORM, &a, in, 2, GRAFT_DTYPE_NONE);
}

graft_vid graft_build_rms_norm(const graft_build *b, graft_name weight, graft_vid x, int32_t heads,
                               float eps)
{
    return rms_norm(b, weight, x, heads, eps, false);
}

graft_vid graft_build_rms_norm_more(const graft_build *b, graft_name weight, graft_vid x,
                                    int32_t heads, float eps)
{
    return rms_norm(b, weight, x, heads, eps, true);
}

graft_vid graft_build_act(const graft_build *b, graft_vid x, graft_act act)
{
    graft_attrs a = {.act = act};
    return x < 0 ? x : graft_graph_node(b->g, GRAFT_OP_ACT, &a, &x, 1, GRAFT_DTYPE_NONE);
}

/* An operator of two values and no attributes. */
static graft_vid of_two(const graft_build *b, graft_op op, graft_vid x, graft_vid y)
{
    graft_vid in[2] = {x, y};
    return x < 0 || y < 0 ? GRAFT_NO_VALUE
                          : graft_graph_node(b->g, op, NULL, in, 2, GRAFT_DTYPE_NONE);
}

graft_vid graft_build_add(const graft_build *b, graft_vid x, graft_vid y)
{
    return of_two(b, GRAFT_OP_ADD, x, y);
}

graft_vid graft_build_mul(const graft_build *b, graft_vid x, graft_vid y)
{
    return of_two(b, GRAFT_OP_MUL, x, y);
}

graft_vid graft_build_scale(const graft_build *b, graft_vid x, float scale, float shift)
{
    const graft_attrs a = {.scale = scale, .shift = shift};
    return x < 0 ? x : graft_graph_node(b->g, GRAFT_OP_SCALE, &a, &x, 1, GRAFT_DTYPE_NONE);
}

graft_vid graft_build_attention(const graft_build *b, graft_vid q, graft_vid k, graft_vid v,
                                int32_t heads, bool causal)
{
    if (q < 0 || k < 0 || v < 0) return GRAFT_NO_VALUE;
    double head_dim = (double)b->g->value[q].dim[2] / heads;
    graft_attrs a = {.heads = heads, .causal = causal, .scale = (float)(1.0 / sqrt(head_dim))};
    graft_vid in[3] = {q, k, v};
    return graft_graph_node(b->g, GRAFT_OP_ATTENTION, &a, in, 3, GRAFT_DTYPE_NONE);
}

graft_vid graft_build_attention_counted(const graft_build *b, const graft_vid qkv[3],
                                        graft_vid count, int32_t heads)
{
    if (qkv[0] < 0 || qkv[1] < 0 || qkv[2] < 0 || count < 0) return GRAFT_NO_VALUE;
    const double head_dim = (double)graft_build_dim(b, qkv[0], 2) / heads;
    const graft_attrs a = {.heads = heads, .scale = (float)(1.0 / sqrt(head_dim))};
    const graft_vid in[GRAFT_ATTENTION_COUNT + 1] = {qkv[0], qkv[1], qkv[2], GRAFT_NO_VALUE, count};
    return graft_graph_node(b->g, GRAFT_OP_ATTENTION, &a, in, GRAFT_ATTENTION_COUNT + 1,
                            GRAFT_DTYPE_NONE);
}

graft_vid graft_build_gated(const graft_build *b, graft_name name,
                            const graft_build_gated_layers *layers, graft_vid x, int32_t wide,
                            graft_act act)
{
    const int32_t width = (int32_t)graft_build_dim(b, x, 2);
    const graft_vid gate =
        graft_build_linear(b, graft_name_make("%s.%s", name.text, layers->gate), x, wide, false);
    x = graft_build_linear(b, graft_name_make("%s.%s", name.text, layers->up), x, wide, false);
    x = graft_build_mul(b, graft_build_act(b, gate, act), x);
    return graft_build_linear(b, graft_name_make("%s.%s", name.text, layers->down), x, width,
                              false);
}

graft_vid graft_build_concat(const graft_build *b, graft_vid x, graft_vid y)
{
    return of_two(b, GRAFT_OP_CONCAT, x, y);
}

graft_vid graft_build_join(const graft_build *b, graft_vid x, graft_vid y)
{
    return of_two(b, GRAFT_OP_JOIN, x, y);
}

graft_vid graft_build_waves(const graft_build *b, graft_vid t, int32_t width)
{
    const graft_attrs a = {.up_w = width};
    return t < 0 ? t : graft_graph_node(b->g, GRAFT_OP_TIMESTEP, &a, &t, 1, GRAFT_F32);
}

graft_vid graft_build_rope(const graft_build *b, graft_vid x, const graft_rope_grid *grid)
{
    const graft_attrs a = graft_rope_attrs(grid);
    return x < 0 ? x : graft_graph_node(b->g, GRAFT_OP_ROPE, &a, &x, 1, GRAFT_DTYPE_NONE);
}

graft_vid graft_build_upsample(const graft_build *b, graft_vid x, int64_t height, int64_t width)
{
    graft_attrs a = {.up_h = (int32_t)height, .up_w = (int32_t)width};
    return x < 0 ? x : graft_graph_node(b->g, GRAFT_OP_UPSAMPLE, &a, &x, 1, GRAFT_DTYPE_NONE);
}

graft_vid graft_build_dense(const graft_build *b, graft_vid x, graft_dtype dtype)
{
    return x < 0 ? x : graft_graph_node(b->g, GRAFT_OP_COPY, NULL, &x, 1, dtype);
}

graft_vid graft_build_permuted(const graft_build *b, graft_vid x, const int32_t order[4],
                               graft_dtype dtype)
{
    return graft_build_dense(b, graft_graph_permute(b->g, x, order), dtype);
}

graft_vid graft_build_exchanged(const graft_build *b, graft_vid x, const int64_t dim[4],
                                graft_dtype dtype)
{
    x = graft_graph_reshape(b->g, x, 4, dim);
    return graft_build_permuted(b, x, (const int32_t[4]){0, 2, 1, 3}, dtype);
}

graft_vid graft_build_cast(const graft_build *b, graft_vid x, graft_dtype dtype)
{
    return x < 0 || b->g->value[x].dtype == dtype ? x : graft_build_dense(b, x, dtype);
}

graft_vid graft_build_to_nhwc(const graft_build *b, graft_vid x, graft_dtype dtype)
{
    return graft_build_permuted(b, x, (const int32_t[4]){0, 2, 3, 1}, dtype);
}

graft_vid graft_build_to_nchw(const graft_build *b, graft_vid x, graft_dtype dtype)
{
    return graft_build_permuted(b, x, (const int32_t[4]){0, 3, 1, 2}, dtype);
}
