#include "engine/models/unet.h"

#include <assert.h>
#include <string.h>

#include "engine/models/build.h"

typedef struct unet_build {
    graft_build b;
    const graft_unet_arch *a;
    graft_vid emb;     /* (N,time_dim), SiLU applied */
    graft_vid context; /* (N,tokens,context_dim) */
    int64_t batch;     /* N */
} unet_build;

#define NAME(...) graft_name_make(__VA_ARGS__)

/* All N rows of a value that has only the first of what repeats. */
static graft_vid wide(const unet_build *u, graft_vid v)
{
    const graft_build *b = &u->b;
    int64_t rows = graft_build_dim(b, v, 0), dim[GRAFT_MAX_RANK];
    if (v < 0 || rows == u->batch) return v;
    int rank = b->g->value[v].rank;
    memcpy(dim, b->g->value[v].dim, sizeof dim);
    graft_vid once =
        graft_graph_reshape(b->g, v, 2, (int64_t[]){1, graft_gvalue_count(&b->g->value[v])});
    graft_vid all = once;
    for (int64_t i = rows; i < u->batch; i += rows) all = graft_build_concat(b, all, once);
    dim[0] = u->batch;
    return all < 0 ? all : graft_graph_reshape(b->g, all, rank, dim);
}

static graft_vid time_embedding(unet_build *u, graft_vid timesteps, graft_vid y)
{
    const graft_build *b = &u->b;
    graft_attrs a = {.up_w = u->a->model_channels};
    graft_vid t = graft_graph_node(b->g, GRAFT_OP_TIMESTEP, &a, &timesteps, 1, GRAFT_F32);
    t = graft_build_cast(b, t, b->act_dtype);
    t = graft_build_linear(b, NAME("time_embed.0"), t, u->a->time_dim, true);
    t = graft_build_act(b, t, GRAFT_ACT_SILU);
    t = graft_build_linear(b, NAME("time_embed.2"), t, u->a->time_dim, true);
    if (y >= 0) {
        graft_vid l = graft_build_cast(b, y, b->act_dtype);
        l = graft_build_linear(b, NAME("label_emb.0.0"), l, u->a->time_dim, true);
        l = graft_build_act(b, l, GRAFT_ACT_SILU);
        l = graft_build_linear(b, NAME("label_emb.0.2"), l, u->a->time_dim, true);
        t = graft_build_add(b, t, l);
    }
    return graft_build_act(b, t, GRAFT_ACT_SILU);
}

static graft_vid res_block(unet_build *u, graft_name name, graft_vid x, int32_t channels)
{
    const graft_build *b = &u->b;
    int64_t in_channels = graft_build_dim(b, x, 3);
    graft_vid h = graft_build_group_norm(b, NAME("%s.in_layers.0", name.text), x, 1e-5f);
    h = graft_build_act(b, h, GRAFT_ACT_SILU);
    h = graft_build_conv3(b, NAME("%s.in_layers.2", name.text), h, channels);
    graft_vid t = u->emb;
    if (x >= 0 && graft_build_dim(b, x, 0) < u->batch)
        t = graft_graph_slice_rows(b->g, t, 0, graft_build_dim(b, x, 0));
    t = graft_build_linear(b, NAME("%s.emb_layers.1", name.text), t, channels, true);
    int64_t pixel[4] = {graft_build_dim(b, t, 0), 1, 1, channels};
    h = graft_build_add(b, h, graft_graph_reshape(b->g, t, 4, pixel));
    h = graft_build_group_norm(b, NAME("%s.out_layers.0", name.text), h, 1e-5f);
    h = graft_build_act(b, h, GRAFT_ACT_SILU);
    h = graft_build_conv3(b, NAME("%s.out_layers.3", name.text), h, channels);
    if (in_channels != channels)
        x = graft_build_conv(b, NAME("%s.skip_connection", name.text), x,
                             (graft_conv_spec){channels, 1, 1, {0, 0, 0, 0}});
    return graft_build_add(b, h, x);
}

static graft_vid attention(unet_build *u, graft_name name, graft_vid x, graft_vid context,
                           int32_t heads)
{
    const graft_build *b = &u->b;
    int32_t width = (int32_t)graft_build_dim(b, x, 2);
    graft_vid q = graft_build_linear(b, NAME("%s.to_q", name.text), x, width, false);
    graft_vid k = graft_build_linear(b, NAME("%s.to_k", name.text), context, width, false);
    graft_vid v = graft_build_linear(b, NAME("%s.to_v", name.text), context, width, false);
    graft_vid o = graft_build_attention(b, q, k, v, heads, false);
    return graft_build_linear(b, NAME("%s.to_out.0", name.text), o, width, true);
}

static graft_vid transformer_block(unet_build *u, graft_name name, graft_vid x, int32_t heads)
{
    const graft_build *b = &u->b;
    int32_t width = (int32_t)graft_build_dim(b, x, 2);
    graft_vid h = graft_build_layer_norm(b, NAME("%s.norm1", name.text), x);
    x = graft_build_add(b, attention(u, NAME("%s.attn1", name.text), h, h, heads), x);
    x = wide(u, x); /* from here on rows depend on their context */
    h = graft_build_layer_norm(b, NAME("%s.norm2", name.text), x);
    x = graft_build_add(b, attention(u, NAME("%s.attn2", name.text), h, u->context, heads), x);
    h = graft_build_layer_norm(b, NAME("%s.norm3", name.text), x);
    h = graft_build_linear(b, NAME("%s.ff.net.0.proj", name.text), h, width * 8, true);
    if (h >= 0) h = graft_graph_node(b->g, GRAFT_OP_GEGLU, NULL, &h, 1, GRAFT_DTYPE_NONE);
    h = graft_build_linear(b, NAME("%s.ff.net.2", name.text), h, width, true);
    return graft_build_add(b, h, x);
}

static graft_vid spatial_transformer(unet_build *u, graft_name name, graft_vid x, int32_t depth)
{
    const graft_build *b = &u->b;
    int32_t channels = (int32_t)graft_build_dim(b, x, 3);
    int32_t heads = u->a->num_heads ? u->a->num_heads : channels / u->a->head_dim;
    if (heads < 1 || channels % heads)
        return graft_graph_fail(b->g, GRAFT_E_FORMAT, "%s: %d channels do not split into heads",
                                name.text, channels);
    int64_t spatial[4] = {graft_build_dim(b, x, 0), graft_build_dim(b, x, 1),
                          graft_build_dim(b, x, 2), channels};
    int64_t tokens[3] = {spatial[0], spatial[1] * spatial[2], channels};
    graft_vid h = graft_build_group_norm(b, NAME("%s.norm", name.text), x, 1e-6f);
    h = graft_graph_reshape(b->g, h, 3, tokens);
    h = graft_build_linear(b, NAME("%s.proj_in", name.text), h, channels, true);
    for (int32_t i = 0; i < depth; i++)
        h = transformer_block(u, NAME("%s.transformer_blocks.%d", name.text, i), h, heads);
    h = graft_build_linear(b, NAME("%s.proj_out", name.text), h, channels, true);
    spatial[0] = graft_build_dim(b, h, 0);
    h = graft_graph_reshape(b->g, h, 4, spatial);
    return graft_build_add(b, h, wide(u, x));
}

static graft_vid input_block(unet_build *u, int i, graft_vid h)
{
    const graft_unet_block *k = &u->a->input[i];
    const graft_build *b = &u->b;
    if (i == 0) return graft_build_conv3(b, NAME("input_blocks.0.0"), h, k->channels);
    if (k->down) {
        graft_conv_spec spec = {(int32_t)graft_build_dim(b, h, 3), 3, 2, {1, 1, 1, 1}};
        return graft_build_conv(b, NAME("input_blocks.%d.0.op", i), h, spec);
    }
    h = res_block(u, NAME("input_blocks.%d.0", i), h, k->channels);
    if (k->transformer) h = spatial_transformer(u, NAME("input_blocks.%d.1", i), h, k->transformer);
    return h;
}

/* `size_of`: the value whose height and width the block must end with when it doubles its size. */
static graft_vid output_block(unet_build *u, int i, graft_vid h, graft_vid size_of)
{
    const graft_unet_block *k = &u->a->output[i];
    const graft_build *b = &u->b;
    h = res_block(u, NAME("output_blocks.%d.0", i), h, k->channels);
    if (k->transformer)
        h = spatial_transformer(u, NAME("output_blocks.%d.1", i), h, k->transformer);
    if (!k->up) return h;
    int64_t height = graft_build_dim(b, h, 1) * 2, width = graft_build_dim(b, h, 2) * 2;
    if (size_of >= 0) {
        height = graft_build_dim(b, size_of, 1);
        width = graft_build_dim(b, size_of, 2);
    }
    h = graft_build_upsample(b, h, height, width);
    return graft_build_conv3(b, NAME("output_blocks.%d.%d.conv", i, k->transformer ? 2 : 1), h,
                             k->channels);
}

static graft_vid middle_block(unet_build *u, graft_vid h)
{
    int32_t channels = (int32_t)graft_build_dim(&u->b, h, 3);
    h = res_block(u, NAME("middle_block.0"), h, channels);
    if (u->a->middle_transformer)
        h = spatial_transformer(u, NAME("middle_block.1"), h, u->a->middle_transformer);
    return res_block(u, NAME("middle_block.%d", u->a->middle_transformer ? 2 : 1), h, channels);
}

/* feature: the FAST variant's input; otherwise set to the value to store, if there is one. */
static graft_vid blocks(unet_build *u, const graft_unet_shape *shape, graft_vid h,
                        graft_vid *feature)
{
    graft_vid skip[GRAFT_MAX_BLOCKS];
    const graft_unet_arch *a = u->a;
    bool fast = shape->variant == GRAFT_UNET_FAST;
    int computed = fast ? shape->cut + 1 : a->n_input;
    for (int i = 0; i < computed; i++) skip[i] = h = input_block(u, i, h);
    h = wide(u, fast ? *feature : middle_block(u, h));
    for (int i = a->n_output - computed; i < a->n_output; i++) {
        int same = a->n_input - 1 - i;
        if (shape->variant == GRAFT_UNET_STORE && same == shape->cut) *feature = h;
        h = graft_build_concat(&u->b, h, wide(u, skip[same]));
        h = output_block(u, i, h, same > 0 ? skip[same - 1] : GRAFT_NO_VALUE);
    }
    return h;
}

void graft_unet_feature_shape(const graft_unet_arch *a, const graft_unet_shape *shape,
                              int64_t dim[4])
{
    int before = a->n_output - 2 - shape->cut; /* the output block that makes it */
    dim[0] = shape->batch;
    dim[1] = shape->height;
    dim[2] = shape->width;
    dim[3] = before >= 0 ? a->output[before].channels : 0;
    for (int i = 0; i <= shape->cut; i++) {
        if (before < 0 && !a->input[i].down) dim[3] = a->input[i].channels;
        if (!a->input[i].down) continue;
        dim[1] = (dim[1] + 1) / 2; /* kernel 3, stride 2, padding 1 */
        dim[2] = (dim[2] + 1) / 2;
    }
}

graft_status graft_unet_cut(const graft_unet_arch *a, int64_t level, int64_t block, int32_t *cut,
                            graft_err *e)
{
    int first[GRAFT_MAX_BLOCKS + 1], levels = 1;
    first[0] = 1;
    for (int i = 1; i < a->n_input; i++)
        if (a->input[i].down) first[levels++] = i + 1;
    first[levels] = a->n_input;
    if (level < 0 || level >= levels)
        return graft_fail(e, GRAFT_E_ARG,
                          "cache_layer_id %lld is out of range: this model has resolution levels 0 "
                          "to %d",
                          (long long)level, levels - 1);
    int count = first[level + 1] - first[level];
    if (block < 0 || block >= count)
        return graft_fail(
            e, GRAFT_E_ARG,
            "cache_block_id %lld is out of range: level %lld of this model has blocks "
            "0 to %d",
            (long long)block, (long long)level, count - 1);
    *cut = first[level] + (int)block;
    return GRAFT_OK;
}

graft_status graft_unet_build(const graft_unet_arch *a, const graft_unet_shape *shape,
                              graft_graph **out, graft_err *e)
{
    return graft_unet_build_guided(a, shape, shape->batch, out, e);
}

graft_status graft_unet_build_guided(const graft_unet_arch *a, const graft_unet_shape *shape,
                                     int64_t pictures, graft_graph **out, graft_err *e)
{
    graft_graph *g = graft_graph_create();
    if (!g) return graft_fail_nomem(e, "UNet graph");
    unet_build u = {{g, shape->act_dtype}, a, GRAFT_NO_VALUE, GRAFT_NO_VALUE, shape->batch};
    int64_t n = shape->batch;
    assert(pictures > 0 && n % pictures == 0);
    graft_vid x = graft_graph_input(g, GRAFT_F32, 4,
                                    (int64_t[]){n, a->in_channels, shape->height, shape->width});
    graft_vid t = graft_graph_input(g, GRAFT_F32, 1, &n);
    graft_vid c = graft_graph_input(g, GRAFT_F32, 3, (int64_t[]){n, shape->tokens, a->context_dim});
    graft_vid y = GRAFT_NO_VALUE;
    if (a->adm_channels) y = graft_graph_input(g, GRAFT_F32, 2, (int64_t[]){n, a->adm_channels});
    graft_vid feature = GRAFT_NO_VALUE;
    if (shape->variant == GRAFT_UNET_FAST) {
        int64_t dim[4];
        graft_unet_feature_shape(a, shape, dim);
        feature = graft_graph_input(g, shape->act_dtype, 4, dim);
    }
    u.context = graft_build_cast(&u.b, c, shape->act_dtype);
    u.emb = time_embedding(&u, t, y);
    /* y is each row's own, and all that follows the time embedding with it. */
    if (!a->adm_channels && pictures < n) x = graft_graph_slice_rows(g, x, 0, pictures);
    graft_vid h = blocks(&u, shape, graft_build_to_nhwc(&u.b, x, shape->act_dtype), &feature);
    h = graft_build_group_norm(&u.b, NAME("out.0"), h, 1e-5f);
    h = graft_build_act(&u.b, h, GRAFT_ACT_SILU);
    h = graft_build_conv3(&u.b, NAME("out.2"), h, a->out_channels);
    graft_graph_output(g, graft_build_to_nchw(&u.b, h, GRAFT_F32));
    if (shape->variant == GRAFT_UNET_STORE) graft_graph_output(g, feature);
    graft_status st = graft_graph_status(g, e);
    if (st)
        graft_graph_destroy(g);
    else
        *out = g;
    return st;
}
