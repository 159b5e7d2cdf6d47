#include "engine/models/transformers/mmdit.h"

#include "engine/models/parts/rows.h"
#include "engine/models/parts/transformer.h"
#include "engine/models/transformers/mmdit_blocks.h"

#define NAME(...) graft_name_make(__VA_ARGS__)

/* Where the final layer's modulation has what. */
enum { SHIFT, SCALE };

/* ------------------------------------------------------------------ blocks */

/* The residual, (plain,cells,hidden), joins the picture, of rows computed twice both. */
static void steer(const graft_mmdit_blocks *m, graft_rows *r, graft_vid residual)
{
    enum { PICTURE = 1 };
    const graft_build *b = &m->b;
    graft_stream *picture = r->stream[PICTURE];
    graft_vid again = r->again ? graft_rows_first(r, residual) : residual;
    if (r->waiting[PICTURE] >= 0)
        r->waiting[PICTURE] = graft_build_add(b, r->waiting[PICTURE], again);
    else if (r->parted)
        residual = graft_rows_join(b, residual, again);
    picture->h = graft_build_add(b, picture->h, residual);
}

/* own: (N,1), how many tokens of the prompt count. Returns the picture's tokens. */
static graft_vid all_blocks(graft_mmdit_blocks *m, const graft_net_shape *shape, graft_vid own,
                            graft_stream *text, graft_stream *picture, const graft_vid *residual)
{
    const int64_t cells = graft_build_dim(&m->b, picture->h, 1);
    graft_rows r;
    graft_rows_init(&r, &m->b, m->vec, shape->perturbed, text, picture);
    for (int i = 0; i < m->a->depth; i++) {
        const bool skipped = graft_transformer_skips(shape, i), last = i + 1 == m->a->depth;
        const int k = last ? -1 : graft_steered_by(&shape->steered, 0, i);
        graft_rows_before(&r, skipped);
        m->vec = graft_rows_vec(&r);
        m->batch = graft_rows_count(&r);
        if (m->counts) m->count = graft_stream_count(&m->b, graft_rows_each(&r, own), cells);
        if (!skipped || r.again) graft_mmdit_block(m, i, last, text, picture);
        if (k >= 0) steer(m, &r, residual[k]);
    }
    graft_rows_unite(&r);
    m->vec = graft_rows_vec(&r);
    m->batch = graft_rows_count(&r);
    return picture->h;
}

/* ------------------------------------------------------------------ in and out */

static graft_vid final_layer(const graft_mmdit_blocks *m, graft_vid h)
{
    const graft_mmdit_arch *a = m->a;
    graft_stream s = {.h = h};
    graft_stream_modulate(&m->b, &s, NAME("final_layer.adaLN_modulation.1"), m->vec, SCALE + 1);
    return graft_build_linear(&m->b, NAME("final_layer.linear"),
                              graft_stream_normed(&m->b, &s, SHIFT),
                              a->patch * a->patch * a->channels, true);
}

static void check_shape(graft_graph *g, const graft_mmdit_arch *a, const graft_net_shape *s)
{
    graft_transformer_check_patches(g, s, a->patch);
    graft_transformer_check_table(g, s, a->patch, a->table);
    graft_transformer_check_skipped(g, s, a->depth);
    graft_transformer_check_unchanged(g, s, false);
    if (!graft_steered_fits(&s->steered, s->control, (const int32_t[2]){a->depth, 0}))
        graft_graph_fail(g, GRAFT_E_ARG, "no ControlNet has residuals for such blocks");
}

graft_status graft_mmdit_build(const graft_mmdit_arch *a, const graft_net_shape *shape,
                               graft_graph **out, graft_err *e)
{
    graft_graph *g = graft_graph_create();
    if (!g) return graft_fail_nomem(e, "transformer graph");
    graft_mmdit_blocks m = {.b = {g, shape->act_dtype}, .a = a, .batch = shape->batch};
    const int64_t n = shape->batch;
    check_shape(g, a, shape);
    const int64_t high = shape->height / a->patch, wide = shape->width / a->patch;
    graft_vid x = graft_graph_input(g, GRAFT_F32, 4,
                                    (int64_t[]){n, a->channels, shape->height, shape->width});
    graft_vid t = graft_graph_input(g, GRAFT_F32, 1, &n);
    graft_vid c = graft_graph_input(g, GRAFT_F32, 3, (int64_t[]){n, shape->tokens, a->context_dim});
    m.counts = graft_mmdit_counts_tokens(shape->tokens);
    graft_vid y = graft_graph_input(g, GRAFT_F32, 2, (int64_t[]){n, a->pooled_dim + m.counts});
    graft_vid own = m.counts ? graft_graph_slice(g, y, a->pooled_dim, 1) : GRAFT_NO_VALUE;
    graft_vid residual[GRAFT_STEERED_MOST];
    for (int i = 0; i < graft_steered_all(&shape->steered); i++)
        residual[i] = graft_graph_reshape(
            g, graft_graph_input(g, shape->act_dtype, 4, (int64_t[]){n, high, wide, a->hidden}), 3,
            (int64_t[]){n, high * wide, a->hidden});
    c = graft_build_cast(&m.b, c, shape->act_dtype);
    graft_stream text = {
        .h = graft_build_linear(&m.b, NAME("context_embedder"), c, a->hidden, true)};
    graft_stream picture = {.h = graft_mmdit_patches(&m, x, high, wide)};
    m.vec = graft_mmdit_conditioned(&m, t, y);
    graft_vid h = all_blocks(&m, shape, own, &text, &picture, residual);
    graft_graph_output(g, graft_stream_unpatched(&m.b, final_layer(&m, h), high, wide, a->patch));
    graft_status st = graft_graph_status(g, e);
    if (st)
        graft_graph_destroy(g);
    else
        *out = g;
    return st;
}

graft_status graft_mmdit_embed_build(const graft_mmdit_arch *a, const graft_net_shape *shape,
                                     graft_graph **out, graft_err *e)
{
    graft_graph *g = graft_graph_create();
    if (!g) return graft_fail_nomem(e, "transformer graph");
    const int64_t n = shape->batch, high = shape->height / a->patch, wide = shape->width / a->patch;
    const graft_mmdit_blocks m = {.b = {g, shape->act_dtype}, .a = a, .batch = n};
    check_shape(g, a, shape);
    graft_vid x = graft_graph_input(g, GRAFT_F32, 4,
                                    (int64_t[]){n, a->channels, shape->height, shape->width});
    x = graft_mmdit_patches(&m, x, high, wide);
    graft_graph_output(g, graft_graph_reshape(g, x, 4, (int64_t[]){n, high, wide, a->hidden}));
    graft_status st = graft_graph_status(g, e);
    if (st)
        graft_graph_destroy(g);
    else
        *out = g;
    return st;
}
