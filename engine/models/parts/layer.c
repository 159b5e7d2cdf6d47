#include "engine/models/parts/layer.h"

#define NAME(...) graft_name_make(__VA_ARGS__)

/* Names of one layer's parts in the two layouts. */
typedef struct layer_names {
    graft_name norm1, norm2, fc1, fc2, attn_out;
} layer_names;

static layer_names names_of(const graft_layers *l, int i)
{
    if (l->layout == GRAFT_TEXT_OPENCLIP)
        return (layer_names){NAME("%stransformer.resblocks.%d.ln_1", l->part, i),
                             NAME("%stransformer.resblocks.%d.ln_2", l->part, i),
                             NAME("%stransformer.resblocks.%d.mlp.c_fc", l->part, i),
                             NAME("%stransformer.resblocks.%d.mlp.c_proj", l->part, i),
                             NAME("%stransformer.resblocks.%d.attn.out_proj", l->part, i)};
    return (layer_names){NAME("%sencoder.layers.%d.layer_norm1", l->part, i),
                         NAME("%sencoder.layers.%d.layer_norm2", l->part, i),
                         NAME("%sencoder.layers.%d.mlp.fc1", l->part, i),
                         NAME("%sencoder.layers.%d.mlp.fc2", l->part, i),
                         NAME("%sencoder.layers.%d.self_attn.out_proj", l->part, i)};
}

/* OpenCLIP stores q, k and v as one matrix of 3 x width rows. */
static graft_vid attention_merged(const graft_build *b, const graft_layers *l, int i, graft_vid h)
{
    int64_t w = l->width, dim[2] = {3 * w, w};
    graft_name wn = NAME("%stransformer.resblocks.%d.attn.in_proj_weight", l->part, i);
    graft_name bn = NAME("%stransformer.resblocks.%d.attn.in_proj_bias", l->part, i);
    const graft_vid weights = graft_graph_weight(b->g, wn.text, 2, dim);
    const graft_vid bias = graft_graph_weight(b->g, bn.text, 1, dim);
    const graft_vid qkv = graft_build_linear_by(b, h, weights, bias);
    return graft_build_attention(b, graft_graph_slice(b->g, qkv, 0, w),
                                 graft_graph_slice(b->g, qkv, w, w),
                                 graft_graph_slice(b->g, qkv, 2 * w, w), l->heads, l->causal);
}

static graft_vid attention_split(const graft_build *b, const graft_layers *l, int i, graft_vid h)
{
    static const char *const part[3] = {"q_proj", "k_proj", "v_proj"};
    graft_vid v[3];
    for (int k = 0; k < 3; k++)
        v[k] = graft_build_linear(b, NAME("%sencoder.layers.%d.self_attn.%s", l->part, i, part[k]),
                                  h, l->width, true);
    return graft_build_attention(b, v[0], v[1], v[2], l->heads, l->causal);
}

graft_vid graft_layer_build(const graft_build *b, const graft_layers *l, int i, graft_vid x)
{
    layer_names n = names_of(l, i);
    graft_vid h = graft_build_layer_norm_of(b, n.norm1, x, l->eps);
    h = l->layout == GRAFT_TEXT_OPENCLIP ? attention_merged(b, l, i, h)
                                         : attention_split(b, l, i, h);
    x = graft_build_add(b, graft_build_linear(b, n.attn_out, h, l->width, true), x);
    h = graft_build_layer_norm_of(b, n.norm2, x, l->eps);
    h = graft_build_linear(b, n.fc1, h, l->intermediate, true);
    h = graft_build_act(b, h, l->act);
    return graft_build_add(b, graft_build_linear(b, n.fc2, h, l->width, true), x);
}
