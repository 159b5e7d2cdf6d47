#include "engine/models/encoders/vision.h"

#include "engine/models/parts/layer.h"
#include "engine/models/parts/stream.h"

#define NAME(...)  graft_name_make(__VA_ARGS__)
#define SIGLIP_EPS 1e-6f

/* What stands outside of the layers, in transformers' names and in OpenCLIP's. "layrnorm" is how
 * transformers spells it. */
typedef struct outer_names {
    const char *part, *squares, *first, *places, *before, *behind;
} outer_names;

static const outer_names names[] = {
    [GRAFT_TEXT_HF] = {"vision_model.", "vision_model.embeddings.patch_embedding",
                       "vision_model.embeddings.class_embedding",
                       "vision_model.embeddings.position_embedding.weight",
                       "vision_model.pre_layrnorm", "vision_model.post_layernorm"},
    [GRAFT_TEXT_OPENCLIP] = {"visual.", "visual.conv1", "visual.class_embedding",
                             "visual.positional_embedding", "visual.ln_pre", "visual.ln_post"},
};

static float eps_of(const graft_vision_arch *a)
{
    return graft_vision_is_clip(a) ? GRAFT_LAYER_NORM_EPS : SIGLIP_EPS;
}

static graft_vid norm(const graft_build *b, const graft_vision_arch *a, const char *name,
                      graft_vid x)
{
    return graft_build_layer_norm_of(b, NAME("%s", name), x, eps_of(a));
}

const char *graft_vision_first(const graft_vision_arch *a)
{
    return graft_vision_is_clip(a) ? names[a->layout].first : NULL;
}

/* A picture's squares as tokens, with their places. Pixels beyond the last whole square are left
 * out. */
static graft_vid embedded(const graft_build *b, const graft_vision_arch *a)
{
    const outer_names *n = &names[a->layout];
    const int64_t pixels[4] = {1, a->size, a->size, 3}, one[3] = {1, 1, a->width};
    const int64_t cells = (int64_t)a->grid * a->grid,
                  all[3] = {1, graft_vision_tokens(a), a->width};
    const graft_conv_spec squares = {a->width, a->patch, a->patch, {0, 0, 0, 0}};
    const bool clip = graft_vision_is_clip(a);
    graft_vid x = graft_build_cast(b, graft_graph_input(b->g, GRAFT_F32, 4, pixels), b->act_dtype);
    x = clip ? graft_build_conv_plain(b, NAME("%s", n->squares), x, squares)
             : graft_build_conv(b, NAME("%s", n->squares), x, squares);
    x = graft_graph_reshape(b->g, x, 3, (const int64_t[]){1, cells, a->width});
    if (clip) {
        graft_vid first = graft_graph_input(b->g, GRAFT_F32, 3, one);
        x = graft_build_join(b, graft_build_cast(b, first, b->act_dtype), x);
    }
    x = graft_build_add(b, x, graft_graph_weight(b->g, n->places, 3, all));
    return clip ? norm(b, a, n->before, x) : x;
}

/* The first token, which stands for the whole picture. */
static graft_vid pooled(const graft_build *b, const graft_vision_arch *a, graft_vid x)
{
    const int64_t dim[2] = {a->projection, a->width};
    x = norm(b, a, names[a->layout].behind, graft_stream_tokens(b, x, 0, 1));
    x = graft_graph_reshape(b->g, x, 2, (const int64_t[]){1, a->width});
    if (!a->projection) return x;
    const graft_vid weights = a->layout == GRAFT_TEXT_OPENCLIP
                                  ? graft_graph_weight_transposed(b->g, "visual.proj", dim)
                                  : graft_graph_weight(b->g, "visual_projection.weight", 2, dim);
    return graft_build_linear_by(b, x, weights, GRAFT_NO_VALUE);
}

graft_status graft_vision_build(const graft_vision_arch *a, graft_dtype act_dtype,
                                graft_graph **out, graft_err *e)
{
    graft_graph *g = graft_graph_create();
    if (!g) return graft_fail_nomem(e, "vision encoder graph");
    const graft_build b = {g, act_dtype};
    const graft_layers layers = {.layout = (graft_text_layout)a->layout,
                                 .part = names[a->layout].part,
                                 .width = a->width,
                                 .heads = a->heads,
                                 .intermediate = a->intermediate,
                                 .act = (graft_act)a->act,
                                 .eps = eps_of(a)};
    graft_vid x = embedded(&b, a);
    for (int i = 0; i < a->layers; i++) x = graft_layer_build(&b, &layers, i, x);
    if (!graft_vision_is_clip(a)) x = norm(&b, a, names[a->layout].behind, x);
    graft_graph_output(g, graft_build_cast(&b, x, GRAFT_F32));
    if (graft_vision_is_clip(a))
        graft_graph_output(g, graft_build_cast(&b, pooled(&b, a, x), GRAFT_F32));
    graft_status st = graft_graph_status(g, e);
    if (st)
        graft_graph_destroy(g);
    else
        *out = g;
    return st;
}
