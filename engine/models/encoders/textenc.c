#include "engine/models/encoders/textenc.h"

#include <stdio.h>

#include "engine/models/parts/layer.h"

#define NAME(...) graft_name_make(__VA_ARGS__)

/* What its layers are. */
static graft_layers layers_of(const graft_text_arch *a)
{
    return (graft_layers){.layout = (graft_text_layout)a->layout,
                          .part = a->layout == GRAFT_TEXT_OPENCLIP ? "" : "text_model.",
                          .width = a->width,
                          .heads = a->heads,
                          .intermediate = a->intermediate,
                          .act = (graft_act)a->act,
                          .eps = GRAFT_LAYER_NORM_EPS,
                          .causal = true};
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
    const graft_vid weights = a->projection_transposed
                                  ? graft_graph_weight_transposed(b->g, "text_projection", dim)
                                  : graft_graph_weight(b->g, "text_projection.weight", 2, dim);
    return graft_build_linear_by(b, pooled, weights, GRAFT_NO_VALUE);
}

graft_status graft_textenc_build(const graft_text_arch *a, const graft_textenc_shape *s,
                                 graft_graph **out, graft_err *e)
{
    graft_graph *g = graft_graph_create();
    if (!g) return graft_fail_nomem(e, "text encoder graph");
    graft_build b = {g, s->act_dtype};
    int64_t dim[3] = {s->batch, s->tokens, a->width}, one[3] = {1, a->positions, a->width};
    graft_vid x = graft_build_cast(&b, graft_graph_input(g, GRAFT_F32, 3, dim), s->act_dtype);
    graft_vid row = s->pooled ? graft_graph_input(g, GRAFT_I32, 1, dim) : GRAFT_NO_VALUE;
    if (s->tokens > a->positions)
        graft_graph_fail(g, GRAFT_E_UNSUPPORTED, "text of %lld tokens for %d positions",
                         (long long)s->tokens, a->positions);
    if (graft_textenc_adds_positions(a, s->tokens))
        x = graft_build_add(&b, x, graft_graph_weight(g, graft_textenc_positions_name(a), 3, one));
    graft_vid hidden = GRAFT_NO_VALUE;
    int last = s->pooled ? a->layers : s->hidden_layer;
    const graft_layers layers = layers_of(a);
    for (int i = 0; i < last; i++) {
        x = graft_layer_build(&b, &layers, i, x);
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

const char *graft_textenc_positions_name(const graft_text_arch *a)
{
    return a->layout == GRAFT_TEXT_OPENCLIP ? "positional_embedding"
                                            : "text_model.embeddings.position_embedding.weight";
}

void graft_textenc_table_name(const graft_text_arch *a, char *out, size_t n)
{
    snprintf(out, n, "%s",
             a->layout == GRAFT_TEXT_OPENCLIP ? "token_embedding.weight"
                                              : "text_model.embeddings.token_embedding.weight");
}
