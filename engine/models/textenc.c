#include "engine/models/textenc.h"

#include <stdio.h>

#include "engine/models/build.h"

#define NAME(...) graft_name_make(__VA_ARGS__)

/* Names of one layer's parts in the two layouts. */
typedef struct layer_names {
    graft_name norm1, norm2, fc1, fc2, attn_out;
} layer_names;

static layer_names names_of(const graft_text_arch *a, int i)
{
    if (a->layout == GRAFT_TEXT_OPENCLIP)
        return (layer_names){NAME("transformer.resblocks.%d.ln_1", i),
                             NAME("transformer.resblocks.%d.ln_2", i),
                             NAME("transformer.resblocks.%d.mlp.c_fc", i),
                             NAME("transformer.resblocks.%d.mlp.c_proj", i),
                             NAME("transformer.resblocks.%d.attn.out_proj", i)};
    return (layer_names){NAME("text_model.encoder.layers.%d.layer_norm1", i),
                         NAME("text_model.encoder.layers.%d.layer_norm2", i),
                         NAME("text_model.encoder.layers.%d.mlp.fc1", i),
                         NAME("text_model.encoder.layers.%d.mlp.fc2", i),
                         NAME("text_model.encoder.layers.%d.self_attn.out_proj", i)};
}

/* OpenCLIP stores q, k and v as one matrix of 3 x width rows. */
static graft_vid attention_merged(const graft_build *b, const graft_text_arch *a, int i,
                                  graft_vid h)
{
    int64_t w = a->width, dim[2] = {3 * w, w};
    graft_name wn = NAME("transformer.resblocks.%d.attn.in_proj_weight", i);
    graft_name bn = NAME("transformer.resblocks.%d.attn.in_proj_bias", i);
    graft_vid in[3] = {h, graft_graph_weight(b->g, wn.text, 2, dim),
                       graft_graph_weight(b->g, bn.text, 1, dim)};
    graft_vid qkv = h < 0 ? h : graft_graph_node(b->g, GRAFT_OP_LINEAR, NULL, in, 3, b->act_dtype);
    return graft_build_attention(b, graft_graph_slice(b->g, qkv, 0, w),
                                 graft_graph_slice(b->g, qkv, w, w),
                                 graft_graph_slice(b->g, qkv, 2 * w, w), a->heads, true);
}

static graft_vid attention_split(const graft_build *b, const graft_text_arch *a, int i, graft_vid h)
{
    static const char *const part[3] = {"q_proj", "k_proj", "v_proj"};
    graft_vid v[3];
    for (int k = 0; k < 3; k++)
        v[k] = graft_build_linear(b, NAME("text_model.encoder.layers.%d.self_attn.%s", i, part[k]),
                                  h, a->width, true);
    return graft_build_attention(b, v[0], v[1], v[2], a->heads, true);
}

static graft_vid layer(const graft_build *b, const graft_text_arch *a, int i, graft_vid x)
{
    layer_names n = names_of(a, i);
    graft_vid h = graft_build_layer_norm(b, n.norm1, x);
    h = a->layout == GRAFT_TEXT_OPENCLIP ? attention_merged(b, a, i, h)
                                         : attention_split(b, a, i, h);
    x = graft_build_add(b, graft_build_linear(b, n.attn_out, h, a->width, true), x);
    h = graft_build_layer_norm(b, n.norm2, x);
    h = graft_build_linear(b, n.fc1, h, a->intermediate, true);
    h = graft_build_act(b, h, a->act);
    return graft_build_add(b, graft_build_linear(b, n.fc2, h, a->width, true), x);
}

static graft_vid final_norm(const graft_build *b, const graft_text_arch *a, graft_vid x)
{
    bool openclip = a->layout == GRAFT_TEXT_OPENCLIP;
    return graft_build_layer_norm(
        b, NAME("%s", openclip ? "ln_final" : "text_model.final_layer_norm"), x);
}

static graft_vid project(const graft_build *b, const graft_text_arch *a, graft_vid pooled)
{
    int64_t dim[2] = {a->projection, a->width};
    graft_vid w;
    if (a->projection_transposed) {
        w = graft_graph_weight_transposed(b->g, "text_projection", dim);
    } else {
        w = graft_graph_weight(b->g, "text_projection.weight", 2, dim);
    }
    graft_vid in[2] = {pooled, w};
    return pooled < 0 ? pooled : graft_graph_node(b->g, GRAFT_OP_LINEAR, NULL, in, 2, b->act_dtype);
}

graft_status graft_textenc_build(const graft_text_arch *a, const graft_textenc_shape *s,
                                 graft_graph **out, graft_err *e)
{
    graft_graph *g = graft_graph_create();
    if (!g) return graft_fail_nomem(e, "text encoder graph");
    graft_build b = {g, s->act_dtype};
    bool openclip = a->layout == GRAFT_TEXT_OPENCLIP;
    int64_t dim[3] = {s->batch, s->tokens, a->width}, one[3] = {1, a->positions, a->width};
    graft_vid x = graft_build_cast(&b, graft_graph_input(g, GRAFT_F32, 3, dim), s->act_dtype);
    graft_vid row = s->pooled ? graft_graph_input(g, GRAFT_I32, 1, dim) : GRAFT_NO_VALUE;
    graft_name pos = NAME("%s", openclip ? "positional_embedding"
                                         : "text_model.embeddings.position_embedding.weight");
    if (s->tokens != a->positions)
        graft_graph_fail(g, GRAFT_E_UNSUPPORTED, "text of %lld tokens for %d positions",
                         (long long)s->tokens, a->positions);
    x = graft_build_add(&b, x, graft_graph_weight(g, pos.text, 3, one));
    graft_vid hidden = GRAFT_NO_VALUE;
    int last = s->pooled ? a->layers : s->hidden_layer;
    for (int i = 0; i < last; i++) {
        x = layer(&b, a, i, x);
        if (i + 1 == s->hidden_layer) hidden = x;
    }
    graft_vid normed = s->pooled ? final_norm(&b, a, x) : GRAFT_NO_VALUE;
    if (s->hidden_norm) hidden = hidden == x && s->pooled ? normed : final_norm(&b, a, hidden);
    graft_graph_output(g, graft_build_cast(&b, hidden, GRAFT_F32));
    if (s->pooled && normed >= 0) {
        graft_vid in[2] = {normed, row};
        graft_vid p = graft_graph_node(g, GRAFT_OP_GATHER_ROW, NULL, in, 2, GRAFT_DTYPE_NONE);
        if (s->projected && a->projection) p = project(&b, a, p);
        graft_graph_output(g, graft_build_cast(&b, p, GRAFT_F32));
    }
    graft_status st = graft_graph_status(g, e);
    if (st)
        graft_graph_destroy(g);
    else
        *out = g;
    return st;
}

void graft_textenc_table_name(const graft_text_arch *a, char *out, size_t n)
{
    snprintf(out, n, "%s",
             a->layout == GRAFT_TEXT_OPENCLIP ? "token_embedding.weight"
                                              : "text_model.embeddings.token_embedding.weight");
}
