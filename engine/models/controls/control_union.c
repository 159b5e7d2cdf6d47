#include "engine/models/controls/control_union.h"

#include <string.h>

#define NAME(...) graft_name_make(__VA_ARGS__)

bool graft_control_union_has(const char *name)
{
    static const char *const parts[] = {"task_embedding", "control_add_embedding.",
                                        "transformer_layes.", "spatial_ch_projs."};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (strncmp(name, parts[i], strlen(parts[i])) == 0) return true;
    return false;
}

graft_control_union_type graft_control_union_input(const graft_control_arch *a, graft_graph *g)
{
    graft_control_union_type k;
    k.t = graft_graph_input(g, GRAFT_F32, 1, (int64_t[]){a->types});
    k.told = graft_graph_input(g, GRAFT_F32, 1, (int64_t[]){1});
    return k;
}

/* v (any,any) where the network is told a type, else 0. */
static graft_vid if_told(const graft_build *b, graft_control_union_type type, graft_vid v)
{
    return graft_build_mul(b, v, graft_graph_reshape(b->g, type.told, 2, (int64_t[]){1, 1}));
}

graft_vid graft_control_union_embedding(const graft_unet_blocks *u, const graft_control_arch *a,
                                        graft_control_union_type type)
{
    const graft_build *b = &u->b;
    graft_vid v = graft_build_waves(b, type.t, a->type_dim);
    v = graft_graph_reshape(b->g, v, 2, (int64_t[]){1, (int64_t)a->types * a->type_dim});
    v = graft_unet_embedding(u, NAME("control_add_embedding.linear_1"),
                             NAME("control_add_embedding.linear_2"), v);
    return if_told(b, type, v);
}

/* Columns of a matrix as a matrix of their own. */
static graft_vid columns(const graft_build *b, graft_vid x, int64_t first, int64_t count)
{
    return graft_build_dense(b, graft_graph_slice(b->g, x, first, count), GRAFT_DTYPE_NONE);
}

/* The mean over the pixels of x (N,H,W,C), as (N,C): attention that, with a scale of 0, finds all
 * of them equally like what asks, whatever it is. */
static graft_vid mean_of(const graft_build *b, graft_vid x)
{
    int64_t n = graft_build_dim(b, x, 0), c = graft_build_dim(b, x, 3);
    int64_t pixels = graft_build_dim(b, x, 1) * graft_build_dim(b, x, 2);
    graft_attrs equal = {.heads = c % 32 ? 1 : (int32_t)(c / 32), .scale = 0};
    graft_vid all = graft_graph_reshape(b->g, x, 3, (int64_t[]){n, pixels, c});
    graft_vid any = graft_graph_reshape(b->g, x, 2, (int64_t[]){n, pixels * c});
    any = graft_graph_reshape(b->g, columns(b, any, 0, c), 3, (int64_t[]){n, 1, c});
    graft_vid in[3] = {any, all, all};
    if (any < 0) return any;
    graft_vid mean = graft_graph_node(b->g, GRAFT_OP_ATTENTION, &equal, in, 3, GRAFT_DTYPE_NONE);
    return graft_graph_reshape(b->g, mean, 2, (int64_t[]){n, c});
}

/* The type's row of the table, (1,C). */
static graft_vid task_of(const graft_build *b, const graft_control_arch *a,
                         graft_control_union_type type)
{
    const int64_t dim[2] = {a->half.model_channels, a->types};
    graft_vid t = graft_graph_reshape(b->g, type.t, 2, (int64_t[]){1, a->types});
    t = graft_build_cast(b, t, b->act_dtype);
    return graft_build_linear_by(b, t, graft_graph_weight_transposed(b->g, "task_embedding", dim),
                                 GRAFT_NO_VALUE);
}

static graft_vid layer(const graft_build *b, int i, graft_vid x)
{
    int32_t c = (int32_t)graft_build_dim(b, x, 1);
    const graft_name name = NAME("transformer_layes.%d", i);
    graft_vid h = graft_build_layer_norm(b, NAME("%s.ln_1", name.text), x);
    const int64_t dim[2] = {3 * (int64_t)c, c};
    const graft_vid weights =
        graft_graph_weight(b->g, NAME("%s.attn.in_proj_weight", name.text).text, 2, dim);
    const graft_vid bias =
        graft_graph_weight(b->g, NAME("%s.attn.in_proj_bias", name.text).text, 1, dim);
    h = graft_build_linear_by(b, h, weights, bias);
    h = columns(b, h, 2 * (int64_t)c, c); /* values, which come behind queries and keys */
    h = graft_build_linear(b, NAME("%s.attn.out_proj", name.text), h, c, true);
    x = graft_build_add(b, x, h);
    h = graft_build_layer_norm(b, NAME("%s.ln_2", name.text), x);
    h = graft_build_linear(b, NAME("%s.mlp.c_fc", name.text), h, 4 * c, true);
    h = graft_build_act(b, h, GRAFT_ACT_QUICK_GELU);
    h = graft_build_linear(b, NAME("%s.mlp.c_proj", name.text), h, c, true);
    return graft_build_add(b, x, h);
}

graft_vid graft_control_union_shift(const graft_build *b, const graft_control_arch *a,
                                    graft_control_union_type type, graft_vid hint)
{
    int64_t n = graft_build_dim(b, hint, 0);
    int32_t c = a->half.model_channels;
    graft_vid x = graft_build_add(b, mean_of(b, hint), task_of(b, a, type));
    for (int i = 0; i < a->type_layers; i++) x = layer(b, i, x);
    x = graft_build_linear(b, NAME("spatial_ch_projs"), x, c, true);
    return graft_graph_reshape(b->g, if_told(b, type, x), 4, (int64_t[]){n, 1, 1, c});
}
