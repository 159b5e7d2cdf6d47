#include "engine/models/transformers/flux.h"

#include "engine/engine.h"
#include "engine/models/parts/rows.h"
#include "engine/models/parts/transformer.h"
#include "engine/models/transformers/chroma.h"
#include "engine/models/transformers/flux_blocks.h"

#define NAME(...) graft_name_make(__VA_ARGS__)
#define SIDE_MAX  (1 << 15) /* tokens */

/* Where the final layer's vectors have what. */
enum { SHIFT, SCALE };

/* ------------------------------------------------------------------ in and out */

/* Picture i of x (N,values), which begins at value `at`. */
static graft_vid cut_out(const graft_flux_blocks *m, graft_vid x, int i, int64_t at)
{
    const int64_t n = graft_build_dim(&m->b, x, 0), p = m->a->patch, c = m->a->channels;
    const graft_flux_picture *of = &m->of[i];
    x = graft_graph_slice(m->b.g, x, at, c * graft_flux_cells(of) * p * p);
    x = graft_build_dense(&m->b, x, GRAFT_DTYPE_NONE);
    x = graft_graph_reshape(m->b.g, x, 4, (const int64_t[]){n, c, of->rows * p, of->columns * p});
    return graft_stream_plane_patches(&m->b, x, m->a->patch);
}

/* All pictures as tokens, and the graph's first input. */
static graft_vid pictures(const graft_flux_blocks *m, const graft_net_shape *s)
{
    graft_graph *g = m->b.g;
    const int64_t n = s->batch, planes = m->a->channels + m->a->beside;
    const int64_t own = planes * s->height * s->width;
    const int64_t shown = graft_references_cells(&s->references, m->a->patch);
    const int64_t values = own + m->a->channels * shown;
    graft_vid v;
    if (m->n_pictures == 1) {
        v = graft_graph_input(g, GRAFT_F32, 4, (const int64_t[]){n, planes, s->height, s->width});
        v = graft_stream_plane_patches(&m->b, v, m->a->patch);
    } else {
        graft_vid x = graft_graph_input(g, GRAFT_F32, 2, (const int64_t[]){n, values});
        v = cut_out(m, x, 0, 0);
        int64_t at = own;
        for (int i = 1; i < m->n_pictures; i++) {
            v = graft_build_join(&m->b, v, cut_out(m, x, i, at));
            at += m->a->channels * graft_flux_cells(&m->of[i]) * m->a->patch * m->a->patch;
        }
    }
    return v;
}

static graft_vid final_layer(const graft_flux_blocks *m, graft_vid h)
{
    const graft_flux_arch *a = m->a;
    graft_stream s = {.h = h};
    graft_flux_modulate(m, &s, NAME("final_layer.adaLN_modulation.1"), graft_chroma_of_final(a),
                        SCALE + 1);
    return graft_build_linear(&m->b, NAME("final_layer.linear"),
                              graft_stream_normed(&m->b, &s, SHIFT),
                              a->patch * a->patch * a->channels, true);
}

static void check_shape(graft_graph *g, const graft_flux_arch *a, const graft_net_shape *s)
{
    graft_transformer_check_patches(g, s, a->patch);
    graft_transformer_check_side(g, s, a->patch, SIDE_MAX);
    graft_transformer_check_skipped(g, s, a->depth + a->single_depth);
    graft_transformer_check_unchanged(g, s, false);
    if (a->approximator && s->act_dtype != GRAFT_F32 && s->act_dtype != GRAFT_BF16)
        graft_graph_fail(g, GRAFT_E_UNSUPPORTED, "Chroma runs in float32 and bfloat16 only");
    if (a->gated && s->act_dtype != GRAFT_F32 && s->act_dtype != GRAFT_BF16)
        graft_graph_fail(g, GRAFT_E_UNSUPPORTED, "Ovis-Image runs in float32 and bfloat16 only");
    if (!graft_steered_fits(&s->steered, s->control, (const int32_t[2]){a->depth, a->single_depth}))
        graft_graph_fail(g, GRAFT_E_ARG, "no ControlNet has residuals for such blocks");
}

/* ------------------------------------------------------------------ ControlNets */

static void take_residuals(const graft_flux_blocks *m, const graft_net_shape *s,
                           graft_vid residual[GRAFT_STEERED_MOST])
{
    const graft_flux_picture *own = &m->of[0];
    const int64_t dim[4] = {s->batch, own->rows, own->columns, m->a->hidden};
    const int64_t tokens[3] = {s->batch, graft_flux_cells(own), m->a->hidden};
    for (int i = 0; i < graft_steered_all(&s->steered); i++) {
        graft_vid v = graft_graph_input(m->b.g, s->act_dtype, 4, dim);
        residual[i] = graft_graph_reshape(m->b.g, v, 3, tokens);
    }
}

/* The residual joins the latent's tokens of h, before which are `before` others. */
static graft_vid steered(const graft_flux_blocks *m, graft_vid h, int64_t before,
                         graft_vid residual)
{
    const graft_build *b = &m->b;
    const int64_t cells = graft_flux_cells(&m->of[0]), all = graft_build_dim(b, h, 1);
    const int64_t behind = all - before - cells;
    if (cells == all) return graft_build_add(b, h, residual);
    graft_vid v = graft_build_add(b, graft_stream_tokens(b, h, before, cells), residual);
    if (before) v = graft_build_join(b, graft_stream_tokens(b, h, 0, before), v);
    if (behind > 0) v = graft_build_join(b, v, graft_stream_tokens(b, h, before + cells, behind));
    return v;
}

/* The residual, of the plain rows, joins the last stream, of rows computed twice both. */
static void steer(const graft_flux_blocks *m, graft_rows *r, int64_t before, graft_vid residual)
{
    const int last = r->n_streams - 1;
    graft_vid again = r->again ? graft_rows_first(r, residual) : residual;
    if (r->waiting[last] >= 0)
        r->waiting[last] = steered(m, r->waiting[last], before, again);
    else if (r->parted)
        residual = graft_rows_join(&m->b, residual, again);
    r->stream[last]->h = steered(m, r->stream[last]->h, before, residual);
}

static int32_t in_tokens(const graft_flux_blocks *m, int32_t cells)
{
    return (int32_t)(graft_reference_side(cells, m->a->patch) / m->a->patch);
}

/* Where pictures that stand behind the words do. */
static void place_apart(graft_flux_blocks *m, const graft_net_shape *s)
{
    const int32_t at = (int32_t)s->tokens;
    for (int i = 0; i < m->n_pictures; i++)
        m->of[i] = (graft_flux_picture){m->of[i].rows, m->of[i].columns, 1 + i, at, at};
}

/* Where the pictures stand. References are placed in cells, of which a token has several. */
static void place(graft_flux_blocks *m, const graft_net_shape *s)
{
    const graft_references *r = &s->references;
    const int32_t patch = m->a->patch;
    const bool from_corner = r->placing == GRAFT_PLACE_DIAGONAL;
    int32_t high = from_corner ? (int32_t)s->height : 0, wide = from_corner ? (int32_t)s->width : 0;
    m->of[0] =
        (graft_flux_picture){(int32_t)(s->height / patch), (int32_t)(s->width / patch), 0, 0, 0};
    m->n_pictures = 1 + r->n;
    if (r->placing == GRAFT_PLACE_CLEAN)
        graft_graph_fail(m->b.g, GRAFT_E_UNSUPPORTED,
                         "FLUX.1's references have no timestep of their own");
    for (int i = 0; i < r->n; i++) {
        const graft_grid g = r->of[i];
        if (g.rows < 1 || g.columns < 1 || g.rows / patch >= SIDE_MAX ||
            g.columns / patch >= SIDE_MAX) {
            graft_graph_fail(m->b.g, GRAFT_E_ARG, "a reference of %d x %d", g.columns, g.rows);
            return;
        }
        const bool right = g.rows + high > g.columns + wide,
                   behind = r->placing == GRAFT_PLACE_BEHIND;
        const bool diagonal = r->placing == GRAFT_PLACE_DIAGONAL;
        const int32_t top = diagonal || !(right || behind) ? high : 0;
        const int32_t left = diagonal || (right && !behind) ? wide : 0;
        m->of[1 + i] = (graft_flux_picture){in_tokens(m, g.rows), in_tokens(m, g.columns),
                                            behind ? i + 1 : !diagonal, (top + patch / 2) / patch,
                                            (left + patch / 2) / patch};
        high = high > g.rows + top ? high : g.rows + top;
        wide = wide > g.columns + left ? wide : g.columns + left;
    }
    if (m->a->apart) place_apart(m, s);
}

/* Tokens of all pictures. */
static int64_t cells_of(const graft_flux_blocks *m)
{
    int64_t n = 0;
    for (int i = 0; i < m->n_pictures; i++) n += graft_flux_cells(&m->of[i]);
    return n;
}

/* What the rows that the next block sees are told. own: (N,1) tokens of the prompt. */
static void tell(graft_flux_blocks *m, const graft_rows *r, graft_vid own)
{
    m->vec = graft_rows_vec(r);
    if (m->behind) m->count = graft_stream_count(&m->b, graft_rows_each(r, own), cells_of(m));
}

/* Returns the tokens of the latent. */
static graft_vid all_blocks(graft_flux_blocks *m, const graft_net_shape *shape, graft_vid own,
                            graft_stream *text, graft_stream *both)
{
    const int64_t before = m->behind ? 0 : shape->tokens;
    graft_vid residual[GRAFT_STEERED_MOST];
    graft_rows r;
    take_residuals(m, shape, residual);
    graft_rows_init(&r, &m->b, m->vec, shape->perturbed, text, both);
    for (int i = 0; i < m->a->depth; i++) {
        const int k = graft_steered_by(&shape->steered, 0, i);
        graft_rows_before(&r, graft_transformer_skips(shape, i));
        tell(m, &r, own);
        if (!graft_transformer_skips(shape, i) || r.again)
            graft_flux_double_block(m, i, text, both);
        if (k >= 0) steer(m, &r, 0, residual[k]);
    }
    graft_rows_unite(&r);
    both->h = graft_flux_joined(m, text->h, both->h);
    r.stream[0] = both;
    r.n_streams = 1;
    for (int i = 0; i < m->a->single_depth; i++) {
        const int k = graft_steered_by(&shape->steered, 1, i);
        graft_rows_before(&r, graft_transformer_skips(shape, m->a->depth + i));
        tell(m, &r, own);
        if (!graft_transformer_skips(shape, m->a->depth + i) || r.again)
            graft_flux_single_block(m, i, both);
        if (k >= 0) steer(m, &r, before, residual[k]);
    }
    graft_rows_unite(&r);
    m->vec = graft_rows_vec(&r);
    return graft_stream_tokens(&m->b, both->h, before, graft_flux_cells(&m->of[0]));
}

graft_status graft_flux_build(const graft_flux_arch *a, const graft_net_shape *shape,
                              graft_graph **out, graft_err *e)
{
    graft_graph *g = graft_graph_create();
    if (!g) return graft_fail_nomem(e, "transformer graph");
    graft_flux_blocks m = {.b = {g, shape->act_dtype}, .a = a, .untold = shape->untold};
    const int64_t n = shape->batch;
    check_shape(g, a, shape);
    place(&m, shape);
    const int64_t told = graft_flux_y_width(a), counts = graft_flux_counts_tokens(a, shape->tokens);
    m.behind = counts ? shape->tokens : 0;
    m.words = a->words ? shape->tokens : 0;
    graft_vid x = pictures(&m, shape);
    graft_vid t = graft_graph_input(g, GRAFT_F32, 1, &n);
    graft_vid c = graft_graph_input(g, GRAFT_F32, 3, (int64_t[]){n, shape->tokens, a->context_dim});
    graft_vid y = GRAFT_NO_VALUE, own = GRAFT_NO_VALUE;
    if (told + counts) y = graft_graph_input(g, GRAFT_F32, 2, (int64_t[]){n, told + counts});
    if (counts) own = graft_graph_slice(g, y, told, 1);
    if (a->gated) c = graft_build_rms_norm(&m.b, NAME("txt_norm.scale"), c, 1, GRAFT_STREAM_EPS);
    c = graft_build_cast(&m.b, c, shape->act_dtype);
    graft_stream text = {.h = graft_build_linear(&m.b, NAME("txt_in"), c, a->hidden, true)};
    graft_stream both = {.h = graft_build_linear(&m.b, NAME("img_in"), x, a->hidden, true)};
    m.vec = graft_flux_conditioned(&m, t, y);
    graft_vid h = all_blocks(&m, shape, own, &text, &both);
    h = graft_stream_plane_unpatched(&m.b, final_layer(&m, h), m.of[0].rows, m.of[0].columns,
                                     a->patch);
    graft_graph_output(g, h);
    graft_status st = graft_graph_status(g, e);
    if (!st) {
        *out = g;
        return GRAFT_OK;
    }
    graft_graph_destroy(g);
    return st;
}
