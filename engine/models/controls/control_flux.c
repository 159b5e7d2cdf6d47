#include "engine/models/controls/control_flux.h"

#include "engine/models/transformers/flux_blocks.h"

#define NAME(...) graft_name_make(__VA_ARGS__)

void graft_control_flux_hint(const graft_control_arch *a, int64_t batch, int64_t height,
                             int64_t width, const graft_build *b)
{
    const int32_t patch = a->flux.patch, hidden = a->flux.hidden;
    const int64_t rows = height / patch, columns = width / patch;
    graft_vid v =
        graft_graph_input(b->g, GRAFT_F32, 4, (int64_t[]){batch, a->hint_channels, height, width});
    v = graft_stream_plane_patches(b, v, patch);
    v = graft_build_linear(b, NAME("controlnet_x_embedder"), v, hidden, true);
    graft_graph_output(b->g,
                       graft_graph_reshape(b->g, v, 4, (int64_t[]){batch, rows, columns, hidden}));
}

/* The type's row of the table, (N,1,hidden), for all N. */
static graft_vid mode(const graft_flux_blocks *m, const graft_control_arch *a, graft_vid type,
                      int64_t n)
{
    const graft_build *b = &m->b;
    const int32_t hidden = a->flux.hidden;
    graft_vid t = graft_graph_reshape(b->g, type, 2, (int64_t[]){1, a->types});
    t = graft_build_cast(b, t, b->act_dtype);
    const graft_vid table = graft_graph_weight_transposed(b->g, "controlnet_mode_embedder.weight",
                                                          (int64_t[]){hidden, a->types});
    t = graft_build_linear_by(b, t, table, GRAFT_NO_VALUE);
    t = graft_graph_reshape(b->g, t, 3, (int64_t[]){1, 1, hidden});
    return graft_control_wide(b, t, n);
}

/* The latent's tokens and the hint's, for all rows. */
static graft_vid pictures(const graft_flux_blocks *m, const graft_control_shape *s, graft_vid x,
                          graft_vid hint)
{
    const graft_flux_arch *a = m->a;
    const graft_build *b = &m->b;
    x = graft_graph_slice_rows(b->g, x, 0, s->pictures);
    x = graft_stream_plane_patches(b, x, a->patch);
    x = graft_build_linear(b, NAME("img_in"), x, a->hidden, true);
    hint = graft_graph_reshape(b->g, hint, 3,
                               (int64_t[]){s->pictures, graft_flux_cells(&m->of[0]), a->hidden});
    return graft_control_wide(b, graft_build_add(b, x, hint), s->batch);
}

static void all_blocks(const graft_flux_blocks *m, graft_control_residuals *r, graft_stream *text,
                       graft_stream *both)
{
    const graft_build *b = &m->b;
    const int64_t words = graft_build_dim(b, text->h, 1), cells = graft_flux_cells(&m->of[0]);
    const int64_t before = m->behind ? 0 : words;
    for (int i = 0; i < m->a->depth; i++) {
        graft_flux_double_block(m, i, text, both);
        graft_control_residual(r, 0, i, NAME("controlnet_blocks.%d", i), both->h);
    }
    both->h = graft_flux_joined(m, text->h, both->h);
    for (int i = 0; i < m->a->single_depth; i++) {
        graft_flux_single_block(m, i, both);
        graft_control_residual(r, 1, i, NAME("controlnet_single_blocks.%d", i),
                               graft_stream_tokens(b, both->h, before, cells));
    }
}

void graft_control_flux(const graft_control_arch *a, const graft_control_shape *s,
                        const graft_build *b)
{
    const graft_flux_arch *f = &a->flux;
    graft_graph *g = b->g;
    graft_flux_blocks m = {.b = *b, .a = f, .n_pictures = 1};
    const int64_t n = s->batch;
    m.of[0] = (graft_flux_picture){.rows = (int32_t)(s->height / f->patch),
                                   .columns = (int32_t)(s->width / f->patch)};
    const int64_t hint_dim[4] = {s->pictures, m.of[0].rows, m.of[0].columns, f->hidden};
    graft_vid x =
        graft_graph_input(g, GRAFT_F32, 4, (int64_t[]){n, f->channels, s->height, s->width});
    graft_vid t = graft_graph_input(g, GRAFT_F32, 1, &n);
    graft_vid c = graft_graph_input(g, GRAFT_F32, 3, (int64_t[]){n, s->tokens, f->context_dim});
    graft_vid y = graft_graph_input(g, GRAFT_F32, 2, (int64_t[]){n, s->y_width});
    graft_vid hint = graft_graph_input(g, s->act_dtype, 4, hint_dim);
    graft_control_residuals r;
    graft_control_residuals_init(&r, b, s, f->hidden, f->patch);
    graft_vid type =
        s->told ? graft_graph_input(g, GRAFT_F32, 1, (int64_t[]){a->types}) : GRAFT_NO_VALUE;
    graft_control_residuals_before(&r);
    c = graft_build_linear(b, NAME("txt_in"), graft_build_cast(b, c, s->act_dtype), f->hidden,
                           true);
    if (s->told) c = graft_build_join(b, mode(&m, a, type, n), c);
    if (s->counts) {
        m.behind = graft_build_dim(b, c, 1);
        m.count = graft_stream_count(b, graft_graph_slice(g, y, s->y_width - 1, 1),
                                     graft_flux_cells(&m.of[0]) + (s->told != 0));
    }
    graft_stream text = {.h = c}, both = {.h = pictures(&m, s, x, hint)};
    m.vec = graft_flux_conditioned(&m, t, y);
    all_blocks(&m, &r, &text, &both);
    graft_control_residuals_finish(&r);
}
