#include "engine/models/transformers/qwen_image.h"

#include "engine/conditioning.h"
#include "engine/models/parts/transformer.h"
#include "engine/models/transformers/control_blockwise.h"
#include "engine/models/transformers/qwen_image_blocks.h"

#define NAME(...) graft_name_make(__VA_ARGS__)
#define SIDE_MAX  (1 << 15) /* tokens, and of a prompt */

typedef graft_qwen_image_blocks qwen_image;
typedef graft_qwen_image_pictures pictures;

/* ------------------------------------------------------------------ in and out */

/* vec, and where references are told of no noise vec_clean. */
static void condition(qwen_image *m, graft_vid t, bool clean)
{
    graft_graph *g = m->b.g;
    const int64_t n = graft_build_dim(&m->b, t, 0), twice = 2 * n;
    m->vec_clean = GRAFT_NO_VALUE;
    if (clean) {
        const graft_vid row = graft_graph_reshape(g, t, 2, (int64_t[]){1, n});
        t = graft_build_concat(&m->b, row, graft_build_scale(&m->b, row, 0, 0));
        t = graft_graph_reshape(g, t, 1, &twice);
    }
    m->vec = graft_qwen_image_conditioned(m, t);
    if (!clean) return;
    m->vec_clean = m->vec;
    m->vec = graft_graph_slice_rows(g, m->vec_clean, 0, n);
}

/* Its scale stands before its shift, unlike in blocks. */
static graft_vid final_layer(const qwen_image *m, graft_vid h)
{
    const int64_t hidden = m->a->hidden;
    graft_stream s = {.h = h};
    graft_stream_modulate(&m->b, &s, NAME("norm_out.linear"), m->vec, 2);
    const graft_vid in[3] = {h, graft_graph_slice(m->b.g, s.scales, 0, hidden),
                             graft_graph_slice(m->b.g, s.shifts, hidden, hidden)};
    if (in[0] < 0 || in[1] < 0 || in[2] < 0) return GRAFT_NO_VALUE;
    h = graft_graph_node(m->b.g, GRAFT_OP_LAYER_NORM, &(graft_attrs){.eps = GRAFT_STREAM_EPS}, in,
                         3, GRAFT_DTYPE_NONE);
    return graft_build_linear(&m->b, NAME("proj_out"), h,
                              m->a->patch * m->a->patch * m->a->channels, true);
}

/* Picture i of x (N,values), which begins at value `at`, as tokens. */
static graft_vid cut_out(const qwen_image *m, graft_vid x, int i, int64_t at)
{
    const int64_t n = graft_build_dim(&m->b, x, 0), c = m->a->channels, p = m->a->patch;
    x = graft_graph_slice(m->b.g, x, at, c * p * p * graft_qwen_image_cells(m, i));
    x = graft_build_dense(&m->b, x, GRAFT_DTYPE_NONE);
    const int64_t rows = (int64_t)m->of[i].rows * (i ? 1 : m->layers);
    x = graft_graph_reshape(m->b.g, x, 4, (int64_t[]){n, c, p * rows, p * m->of[i].columns});
    return graft_stream_plane_patches(&m->b, x, m->a->patch);
}

/* The graph's first input. */
static graft_vid latents(const qwen_image *m, const graft_net_shape *s)
{
    const int64_t n = s->batch, c = m->a->channels, p = m->a->patch;
    int64_t values = 0;
    for (int i = 0; i < m->n_pictures; i++) values += c * p * p * graft_qwen_image_cells(m, i);
    if (m->n_pictures == 1)
        return graft_graph_input(m->b.g, GRAFT_F32, 4, (int64_t[]){n, c, s->height, s->width});
    return graft_graph_input(m->b.g, GRAFT_F32, 2, (int64_t[]){n, values});
}

/* The tokens of one picture after the other, of x (N,values). */
static graft_vid joined(const qwen_image *m, graft_vid x)
{
    const int64_t c = m->a->channels, p = m->a->patch;
    graft_vid all = cut_out(m, x, 0, 0);
    int64_t at = 0;
    for (int i = 1; i < m->n_pictures; i++) {
        at += c * p * p * graft_qwen_image_cells(m, i - 1);
        all = graft_build_join(&m->b, all, cut_out(m, x, i, at));
    }
    return all;
}

/* All pictures as they come in, x, as tokens. */
static graft_vid seen(const qwen_image *m, graft_vid x)
{
    return m->n_pictures == 1 ? graft_stream_plane_patches(&m->b, x, m->a->patch) : joined(m, x);
}

static pictures embedded(const qwen_image *m, graft_vid v)
{
    pictures p = {.clean.h = GRAFT_NO_VALUE};
    p.own.h = graft_build_linear(&m->b, NAME("img_in"), v, m->a->hidden, true);
    if (m->vec_clean < 0) return p;
    const int64_t own = graft_qwen_image_cells(m, 0), all = graft_build_dim(&m->b, p.own.h, 1);
    p.clean.h = graft_stream_tokens(&m->b, p.own.h, own, all - own);
    p.own.h = graft_stream_tokens(&m->b, p.own.h, 0, own);
    return p;
}

static void check_shape(graft_graph *g, const graft_qwen_image_arch *a, const graft_net_shape *s)
{
    graft_transformer_check_patches(g, s, a->patch);
    graft_transformer_check_side(g, s, a->patch, SIDE_MAX);
    graft_transformer_check_tokens(g, s, 1, SIDE_MAX);
    graft_transformer_check_wide(g, s, "Qwen-Image");
    graft_transformer_check_unchanged(g, s, s->perturbed);
    if (a->layered && (s->control || s->within))
        graft_graph_fail(g, GRAFT_E_UNSUPPORTED, "no ControlNet is for Qwen-Image-Layered");
    if (s->within < 0 || s->within > GRAFT_WITHIN_MOST ||
        (s->within && (s->within_rows < 1 || s->batch % s->within_rows)))
        graft_graph_fail(g, GRAFT_E_ARG, "no %d ControlNets run within it", s->within);
    if (!graft_steered_fits(&s->steered, s->control, (const int32_t[2]){a->depth, 0}))
        graft_graph_fail(g, GRAFT_E_ARG, "no ControlNet has residuals for such blocks");
}

static int32_t in_tokens(const qwen_image *m, int32_t cells)
{
    return (int32_t)(graft_reference_side(cells, m->a->patch) / m->a->patch);
}

static void place(qwen_image *m, const graft_net_shape *s)
{
    const graft_references *r = &s->references;
    const int32_t patch = m->a->patch, layers = r->layers ? r->layers : 1;
    m->of[0] = (graft_grid){(int32_t)(s->height / patch / layers), (int32_t)(s->width / patch)};
    m->n_pictures = 1 + r->n;
    m->layers = layers;
    if (layers < 1 || layers > GRAFT_LAYERS_MOST || (layers > 1 && !m->a->layered) ||
        s->height % ((int64_t)layers * patch))
        graft_graph_fail(m->b.g, GRAFT_E_ARG, "a latent of height %lld in %d layers",
                         (long long)s->height, layers);
    if (m->a->layered && r->n > 1)
        graft_graph_fail(m->b.g, GRAFT_E_UNSUPPORTED,
                         "Qwen-Image-Layered takes one picture apart, and %d are shown", r->n);
    if (r->placing == GRAFT_PLACE_DIAGONAL)
        graft_graph_fail(m->b.g, GRAFT_E_UNSUPPORTED,
                         "Qwen-Image's references stand each by itself, not along a diagonal as "
                         "UNO's for FLUX.1");
    for (int i = 0; i < r->n; i++) {
        m->of[1 + i] = (graft_grid){in_tokens(m, r->of[i].rows), in_tokens(m, r->of[i].columns)};
        if (r->of[i].rows < 1 || r->of[i].columns < 1 || m->of[1 + i].rows > SIDE_MAX ||
            m->of[1 + i].columns > SIDE_MAX)
            graft_graph_fail(m->b.g, GRAFT_E_ARG, "a reference of %d x %d", r->of[i].columns,
                             r->of[i].rows);
    }
    graft_qwen_image_place(m);
}

/* ------------------------------------------------------------------ blocks */

static void take_residuals(const qwen_image *m, const graft_net_shape *s,
                           graft_vid residual[GRAFT_STEERED_MOST])
{
    const graft_grid own = m->of[0];
    const int64_t hidden = m->a->hidden, dim[4] = {s->batch, own.rows, own.columns, hidden};
    const int64_t tokens[3] = {s->batch, graft_qwen_image_cells(m, 0), hidden};
    for (int i = 0; i < graft_steered_all(&s->steered); i++)
        residual[i] =
            graft_graph_reshape(m->b.g, graft_graph_input(m->b.g, s->act_dtype, 4, dim), 3, tokens);
}

static void take_within(const qwen_image *m, const graft_net_shape *s, graft_control_within *w)
{
    const graft_grid own = m->of[0];
    const int64_t dim[4] = {s->within_rows, own.rows, own.columns, m->a->hidden};
    graft_control_within_take(w, &m->b, s->within, s->batch, dim);
}

/* The residual joins the latent's tokens, which are the first. */
static void steer(const qwen_image *m, graft_stream *own, graft_vid residual)
{
    const graft_build *b = &m->b;
    const int64_t cells = graft_qwen_image_cells(m, 0), all = graft_build_dim(b, own->h, 1);
    if (all == cells) {
        own->h = graft_build_add(b, own->h, residual);
        return;
    }
    const graft_vid behind = graft_stream_tokens(b, own->h, cells, all - cells);
    const graft_vid v = graft_build_add(b, graft_stream_tokens(b, own->h, 0, cells), residual);
    own->h = graft_build_join(b, v, behind);
}

/* What all ControlNets within it make of the latent's tokens joins these. */
static void steer_within(const qwen_image *m, const graft_control_within *w, int block,
                         graft_stream *own)
{
    const int64_t cells = graft_qwen_image_cells(m, 0), all = graft_build_dim(&m->b, own->h, 1);
    const graft_vid x = all == cells ? own->h : graft_stream_tokens(&m->b, own->h, 0, cells);
    if (w->n) steer(m, own, graft_control_within_block(w, &m->b, block, x));
}

static void all_blocks(const qwen_image *m, const graft_net_shape *s, const graft_vid *residual,
                       const graft_control_within *w, graft_stream *text, pictures *p)
{
    for (int i = 0; i < m->a->depth; i++) {
        graft_qwen_image_block(m, i, text, p);
        steer_within(m, w, i, &p->own);
        const int by = graft_steered_by(&s->steered, 0, i);
        if (by >= 0) steer(m, &p->own, residual[by]);
    }
}

graft_status graft_qwen_image_build(const graft_qwen_image_arch *a, const graft_net_shape *shape,
                                    graft_graph **out, graft_err *e)
{
    graft_graph *g = graft_graph_create();
    if (!g) return graft_fail_nomem(e, "transformer graph");
    qwen_image m = {.b = {g, shape->act_dtype}, .a = a, .words = shape->tokens};
    const int64_t n = shape->batch;
    graft_vid residual[GRAFT_STEERED_MOST];
    graft_control_within within;
    const bool clean = shape->references.n &&
                       (a->clean_references || shape->references.placing == GRAFT_PLACE_CLEAN);
    check_shape(g, a, shape);
    place(&m, shape);
    graft_vid x = latents(&m, shape);
    graft_vid t = graft_graph_input(g, GRAFT_F32, 1, &n);
    graft_vid c = graft_graph_input(g, GRAFT_F32, 3, (int64_t[]){n, m.words, a->context_dim});
    m.count = graft_qwen_image_count(&m, graft_graph_input(g, GRAFT_F32, 2, (int64_t[]){n, 1}));
    take_residuals(&m, shape, residual);
    take_within(&m, shape, &within);
    condition(&m, t, clean);
    x = seen(&m, x);
    graft_stream text = {.h = graft_qwen_image_prompt(&m, c)};
    pictures p = embedded(&m, x);
    all_blocks(&m, shape, residual, &within, &text, &p);
    x = final_layer(&m, p.own.h);
    graft_graph_output(g, graft_stream_plane_unpatched(&m.b, x, shape->height / a->patch,
                                                       m.of[0].columns, a->patch));
    graft_status st = graft_graph_status(g, e);
    if (!st) {
        *out = g;
        return GRAFT_OK;
    }
    graft_graph_destroy(g);
    return st;
}
