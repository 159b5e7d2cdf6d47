#include "engine/models/transformers/zimage.h"

#include "engine/models/parts/transformer.h"
#include "engine/models/transformers/zimage_blocks.h"

#define NAME(...) graft_name_make(__VA_ARGS__)
#define SIDE_MAX  (1 << 15) /* tokens, and of a prompt */

/* ------------------------------------------------------------------ ControlNets */

/* Those of noise_refiner, whose stream has no words, then those of layers. */
static void take_residuals(const graft_zimage_blocks *m, const graft_net_shape *s,
                           graft_vid residual[GRAFT_STEERED_MOST])
{
    const int64_t seen = graft_zimage_cells(m) + graft_zimage_filling(m);
    for (int i = 0; i < graft_steered_all(&s->steered); i++) {
        const int64_t before = i < graft_steered_count(&s->steered, 0) ? 0 : m->words;
        const int64_t dim[4] = {s->batch, before + seen, 1, m->a->hidden};
        graft_vid v = graft_graph_input(m->b.g, s->act_dtype, 4, dim);
        residual[i] = graft_graph_reshape(m->b.g, v, 3, (int64_t[]){dim[0], dim[1], m->a->hidden});
    }
}

/* All blocks of a list, and what steers the stream behind them. */
static void blocks(const graft_zimage_blocks *m, const graft_net_shape *s, int part,
                   const graft_vid *residual, graft_zimage_sequence *q)
{
    const int32_t depth = part ? m->a->depth : m->a->noise_depth;
    for (int i = 0; i < depth; i++) {
        graft_zimage_block(m, part ? "layers" : "noise_refiner", i, q);
        if (i < GRAFT_STEERED_BLOCKS && s->steered.begins[part] >> i & 1)
            q->s.h =
                graft_build_add(&m->b, q->s.h, residual[graft_steered_by(&s->steered, part, i)]);
    }
}

/* ------------------------------------------------------------------ in and out */

/* Scaled by the time, but not shifted. */
static graft_vid final_layer(const graft_zimage_blocks *m, graft_vid h)
{
    const graft_zimage_arch *a = m->a;
    graft_stream s = {.h = h};
    graft_stream_modulate(&m->b, &s, NAME("final_layer.adaLN_modulation.1"),
                          graft_build_act(&m->b, m->told, GRAFT_ACT_SILU), 1);
    graft_vid in[3] = {h, s.scales, graft_build_scale(&m->b, s.shifts, 0, 0)};
    if (in[0] < 0 || in[1] < 0 || in[2] < 0) return GRAFT_NO_VALUE;
    h = graft_graph_node(m->b.g, GRAFT_OP_LAYER_NORM, &(graft_attrs){.eps = GRAFT_STREAM_EPS}, in,
                         3, GRAFT_DTYPE_NONE);
    return graft_build_linear(&m->b, NAME("final_layer.linear"), h,
                              a->patch * a->patch * a->channels, true);
}

static void check_shape(graft_graph *g, const graft_zimage_arch *a, const graft_net_shape *s)
{
    graft_transformer_check_patches(g, s, a->patch);
    graft_transformer_check_side(g, s, a->patch, SIDE_MAX);
    graft_transformer_check_tokens(g, s, a->key_heads ? 1 : GRAFT_ZIMAGE_TOKENS, SIDE_MAX);
    graft_transformer_check_wide(g, s, a->key_heads ? "Lumina-Image" : "Z-Image");
    graft_transformer_check_unchanged(g, s, s->perturbed || (a->key_heads && s->control));
    if (!graft_steered_fits(&s->steered, s->control, (const int32_t[2]){a->noise_depth, a->depth}))
        graft_graph_fail(g, GRAFT_E_ARG, "no ControlNet has residuals for such blocks");
}

graft_status graft_zimage_build(const graft_zimage_arch *a, const graft_net_shape *shape,
                                graft_graph **out, graft_err *e)
{
    graft_graph *g = graft_graph_create();
    if (!g) return graft_fail_nomem(e, "transformer graph");
    const int64_t n = shape->batch, words = shape->tokens, h = shape->height, w = shape->width;
    graft_zimage_blocks m = {.b = {g, shape->act_dtype}, .a = a, .words = words};
    graft_vid residual[GRAFT_STEERED_MOST];
    check_shape(g, a, shape);
    m.rows = (int32_t)(h / a->patch);
    m.columns = (int32_t)(w / a->patch);
    graft_vid x = graft_graph_input(g, GRAFT_F32, 4, (int64_t[]){n, a->channels, h, w});
    graft_vid t = graft_graph_input(g, GRAFT_F32, 1, &n);
    graft_vid c = graft_graph_input(g, GRAFT_F32, 3, (int64_t[]){n, words, a->context_dim});
    const int64_t told = a->key_heads ? 1 : GRAFT_ZIMAGE_TOKENS;
    graft_vid y = m.own = graft_graph_input(g, GRAFT_F32, 2, (int64_t[]){n, told});
    take_residuals(&m, shape, residual);
    m.told = graft_zimage_time(&m, t);
    graft_zimage_sequence text = {.words = true}, image = {.picture = true, .told = true};
    graft_zimage_sequence both = {.words = true, .picture = true, .told = true};
    graft_zimage_prompt(&m, c, y, &text);
    image.s.h = graft_zimage_picture(&m, x, text.s.h);
    blocks(&m, shape, 0, residual, &image);
    both.s.h = a->key_heads ? graft_build_join(&m.b, image.s.h, text.s.h)
                            : graft_build_join(&m.b, text.s.h, image.s.h);
    blocks(&m, shape, 1, residual, &both);
    x = graft_stream_tokens(&m.b, both.s.h, a->key_heads ? 0 : words, graft_zimage_cells(&m));
    x = graft_stream_unpatched(&m.b, final_layer(&m, x), m.rows, m.columns, a->patch);
    graft_graph_output(g, graft_build_scale(&m.b, x, -1, 0));
    graft_status st = graft_graph_status(g, e);
    if (!st) {
        *out = g;
        return GRAFT_OK;
    }
    graft_graph_destroy(g);
    return st;
}
