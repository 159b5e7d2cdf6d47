#include "engine/models/mmdit.h"

#include "engine/models/mmdit_blocks.h"

#define NAME(...) graft_name_make(__VA_ARGS__)

/* Where the final layer's modulation has what. */
enum { SHIFT, SCALE };

/* ------------------------------------------------------------------ rows that skip blocks */

/* (a,T,C) and (b,T,C) to (a + b,T,C). */
static graft_vid below_each_other(const graft_mmdit_blocks *m, graft_vid a, graft_vid b)
{
    if (a < 0 || b < 0) return GRAFT_NO_VALUE;
    const int64_t t = graft_build_dim(&m->b, a, 1), c = graft_build_dim(&m->b, a, 2);
    const int64_t of_a = graft_build_dim(&m->b, a, 0), of_b = graft_build_dim(&m->b, b, 0);
    a = graft_graph_reshape(m->b.g, a, 3, (const int64_t[]){1, of_a * t, c});
    b = graft_graph_reshape(m->b.g, b, 3, (const int64_t[]){1, of_b * t, c});
    return graft_graph_reshape(m->b.g, graft_stream_join(&m->b, a, b), 3,
                               (const int64_t[]){of_a + of_b, t, c});
}

/* (N,C) with its first rows once more behind it. */
static graft_vid repeated(const graft_mmdit_blocks *m, graft_vid v, int64_t again)
{
    const int64_t n = graft_build_dim(&m->b, v, 0), c = graft_build_dim(&m->b, v, 1);
    v = graft_graph_reshape(m->b.g, v, 3, (const int64_t[]){n, 1, c});
    v = below_each_other(m, v, graft_graph_slice_rows(m->b.g, v, 0, again));
    return graft_graph_reshape(m->b.g, v, 2, (const int64_t[]){n + again, c});
}

/* The network's state where some rows are computed twice. `again`: those that left blocks out,
 * apart from the others where they just did (their h is not GRAFT_NO_VALUE), else behind them in
 * `text` and `picture` once `parted`. */
typedef struct row_state {
    graft_stream text, picture, text_again, picture_again;
    graft_vid vec, vec_all; /* for the plain rows, and for all */
    int64_t plain, again;
    bool parted;
} row_state;

static void take_again(const graft_mmdit_blocks *m, row_state *r, int64_t from)
{
    r->text_again.h = graft_graph_slice_rows(m->b.g, r->text.h, from, r->again);
    r->picture_again.h = graft_graph_slice_rows(m->b.g, r->picture.h, from, r->again);
}

/* The plain rows alone go on; the others stay what they are. */
static void part(const graft_mmdit_blocks *m, row_state *r)
{
    if (r->picture_again.h >= 0) return;
    take_again(m, r, r->parted ? r->plain : 0);
    if (r->parted) {
        r->text.h = graft_graph_slice_rows(m->b.g, r->text.h, 0, r->plain);
        r->picture.h = graft_graph_slice_rows(m->b.g, r->picture.h, 0, r->plain);
    }
    r->parted = true;
}

static void unite(const graft_mmdit_blocks *m, row_state *r)
{
    if (r->picture_again.h < 0) return;
    r->text.h = below_each_other(m, r->text.h, r->text_again.h);
    r->picture.h = below_each_other(m, r->picture.h, r->picture_again.h);
    r->text_again.h = r->picture_again.h = GRAFT_NO_VALUE;
}

/* The residual, (plain,cells,hidden), joins the picture, of rows computed twice both. */
static void steer(const graft_mmdit_blocks *m, row_state *r, graft_vid residual)
{
    const graft_build *b = &m->b;
    graft_vid again = r->again ? graft_graph_slice_rows(b->g, residual, 0, r->again) : residual;
    if (r->picture_again.h >= 0)
        r->picture_again.h = graft_build_add(b, r->picture_again.h, again);
    else if (r->parted)
        residual = below_each_other(m, residual, again);
    r->picture.h = graft_build_add(b, r->picture.h, residual);
}

static void all_blocks(graft_mmdit_blocks *m, row_state *r, const graft_unet_shape *shape,
                       const graft_vid *residual)
{
    for (int i = 0; i < m->a->depth; i++) {
        const bool skipped = r->again && i < 64 && shape->skip >> i & 1,
                   last = i + 1 == m->a->depth;
        const int k = last ? -1 : graft_steered_by(&shape->steered, 0, i);
        if (skipped)
            part(m, r);
        else
            unite(m, r);
        bool all = r->parted && !skipped;
        m->vec = all ? r->vec_all : r->vec;
        m->batch = all ? r->plain + r->again : r->plain;
        graft_mmdit_block(m, i, last, &r->text, &r->picture);
        if (k >= 0) steer(m, r, residual[k]);
    }
    unite(m, r);
    m->vec = r->parted ? r->vec_all : r->vec;
    m->batch = r->parted ? r->plain + r->again : r->plain;
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

static void check_shape(graft_graph *g, const graft_mmdit_arch *a, const graft_unet_shape *s)
{
    if (s->height % a->patch || s->width % a->patch)
        graft_graph_fail(g, GRAFT_E_ARG,
                         "a latent of %lldx%lld: this transformer takes multiples of %d, which are "
                         "%d pixels",
                         (long long)s->width, (long long)s->height, a->patch, 8 * a->patch);
    if (s->height / a->patch > a->table || s->width / a->patch > a->table)
        graft_graph_fail(g, GRAFT_E_ARG,
                         "a latent of %lldx%lld: this transformer knows places for %d, which are "
                         "%d pixels a side",
                         (long long)s->width, (long long)s->height, a->table * a->patch,
                         8 * a->table * a->patch);
    uint64_t known = a->depth < 64 ? ((uint64_t)1 << a->depth) - 1 : UINT64_MAX;
    if (s->perturbed < 0 || s->perturbed > s->batch || (s->perturbed && !(s->skip & known)))
        graft_graph_fail(g, GRAFT_E_ARG, "%lld of %lld rows cannot skip such blocks",
                         (long long)s->perturbed, (long long)s->batch);
    bool grids = false;
    for (int i = 0; i < GRAFT_UNET_GRIDS; i++) grids |= s->grid[i].rows || s->grid[i].columns;
    if (s->variant || s->cut || s->freeu || s->shrink.block || grids)
        graft_graph_fail(g, GRAFT_E_UNSUPPORTED, "a transformer has no blocks of a UNet to change");
    if (!graft_steered_fits(&s->steered, s->control, (const int32_t[2]){a->depth, 0}))
        graft_graph_fail(g, GRAFT_E_ARG, "no ControlNet has residuals for such blocks");
}

graft_status graft_mmdit_build(const graft_mmdit_arch *a, const graft_unet_shape *shape,
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
    graft_vid y = graft_graph_input(g, GRAFT_F32, 2, (int64_t[]){n, a->pooled_dim});
    graft_vid residual[GRAFT_STEERED_MOST];
    for (int i = 0; i < graft_steered_all(&shape->steered); i++)
        residual[i] = graft_graph_reshape(
            g, graft_graph_input(g, shape->act_dtype, 4, (int64_t[]){n, high, wide, a->hidden}), 3,
            (int64_t[]){n, high * wide, a->hidden});
    c = graft_build_cast(&m.b, c, shape->act_dtype);
    row_state r = {.text.h = graft_build_linear(&m.b, NAME("context_embedder"), c, a->hidden, true),
                   .picture.h = graft_mmdit_patches(&m, x, high, wide),
                   .text_again.h = GRAFT_NO_VALUE,
                   .picture_again.h = GRAFT_NO_VALUE,
                   .vec = graft_mmdit_conditioned(&m, t, y),
                   .plain = n,
                   .again = shape->perturbed};
    r.vec_all = r.again ? repeated(&m, r.vec, r.again) : r.vec;
    all_blocks(&m, &r, shape, residual);
    graft_graph_output(
        g, graft_stream_unpatched(&m.b, final_layer(&m, r.picture.h), high, wide, a->patch));
    graft_status st = graft_graph_status(g, e);
    if (st)
        graft_graph_destroy(g);
    else
        *out = g;
    return st;
}

graft_status graft_mmdit_embed_build(const graft_mmdit_arch *a, const graft_unet_shape *shape,
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
