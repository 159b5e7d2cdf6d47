#include "engine/models/controls/control_mmdit.h"

#include "engine/models/transformers/mmdit_blocks.h"

#define NAME(...) graft_name_make(__VA_ARGS__)

void graft_control_mmdit_hint(const graft_control_arch *a, int64_t batch, int64_t height,
                              int64_t width, const graft_build *b)
{
    const int32_t patch = a->mmdit.patch;
    graft_vid v =
        graft_graph_input(b->g, GRAFT_F32, 4, (int64_t[]){batch, a->hint_channels, height, width});
    v = graft_build_to_nhwc(b, v, b->act_dtype);
    v = graft_build_conv(b, NAME("pos_embed_input.proj"), v,
                         (graft_conv_spec){a->mmdit.hidden, patch, patch, {0, 0, 0, 0}});
    graft_graph_output(b->g, v);
}

/* The latent's tokens and the hint's, for all rows. x: the latent, or what the steered network
 * makes of it. */
static graft_vid pictures(const graft_mmdit_blocks *m, const graft_control_shape *s, graft_vid x,
                          graft_vid hint)
{
    const graft_build *b = &m->b;
    const int64_t rows = s->height / m->a->patch, columns = s->width / m->a->patch;
    const int64_t dim[3] = {s->pictures, rows * columns, m->a->hidden};
    const graft_mmdit_blocks once = {.b = *b, .a = m->a, .batch = s->pictures};
    x = graft_graph_slice_rows(b->g, x, 0, s->pictures);
    x = m->a->table ? graft_mmdit_patches(&once, x, rows, columns)
                    : graft_graph_reshape(b->g, x, 3, dim);
    x = graft_build_add(b, x, graft_graph_reshape(b->g, hint, 3, dim));
    return graft_control_wide(b, x, s->batch);
}

/* It may know fewer places than the network that it steers. */
static void check_places(graft_graph *g, const graft_mmdit_arch *a, const graft_control_shape *s)
{
    const int64_t side = (int64_t)a->table * a->patch;
    if (a->table && (s->height > side || s->width > side))
        graft_graph_fail(g, GRAFT_E_ARG,
                         "a latent of %lldx%lld: this ControlNet knows places for %lld, which are "
                         "%lld pixels a side",
                         (long long)s->width, (long long)s->height, (long long)side,
                         (long long)(8 * side));
}

void graft_control_mmdit(const graft_control_arch *a, const graft_control_shape *s,
                         const graft_build *b)
{
    const graft_mmdit_arch *w = &a->mmdit;
    graft_graph *g = b->g;
    check_places(g, w, s);
    graft_mmdit_blocks m = {.b = *b, .a = w, .batch = s->batch};
    const int64_t n = s->batch, rows = s->height / w->patch, columns = s->width / w->patch;
    graft_vid x =
        w->table
            ? graft_graph_input(g, GRAFT_F32, 4, (int64_t[]){n, w->channels, s->height, s->width})
            : graft_graph_input(g, s->act_dtype, 4, (int64_t[]){n, rows, columns, w->hidden});
    graft_vid t = graft_graph_input(g, GRAFT_F32, 1, &n);
    graft_vid c = graft_graph_input(g, GRAFT_F32, 3, (int64_t[]){n, s->tokens, s->context_dim});
    graft_vid y = graft_graph_input(g, GRAFT_F32, 2, (int64_t[]){n, s->y_width});
    graft_vid hint =
        graft_graph_input(g, s->act_dtype, 4, (int64_t[]){s->pictures, rows, columns, w->hidden});
    graft_control_residuals r;
    graft_control_residuals_init(&r, b, s, w->hidden, w->patch);
    graft_control_residuals_before(&r);
    graft_stream text = {.h = GRAFT_NO_VALUE}, picture = {.h = pictures(&m, s, x, hint)};
    if (w->context_dim)
        text.h = graft_build_linear(b, NAME("context_embedder"),
                                    graft_build_cast(b, c, s->act_dtype), w->hidden, true);
    /* With a table it is told nothing of the pooled prompt. */
    m.vec = graft_mmdit_conditioned(&m, t, w->table ? graft_build_scale(b, y, 0, 0) : y);
    m.counts = s->counts != 0;
    if (m.counts && w->context_dim)
        m.count = graft_stream_count(b, graft_graph_slice(g, y, s->y_width - 1, 1), rows * columns);
    for (int i = 0; i < w->depth; i++) {
        if (w->context_dim)
            graft_mmdit_block(&m, i, false, &text, &picture);
        else
            graft_mmdit_single_block(&m, i, &picture);
        graft_control_residual(&r, 0, i, NAME("controlnet_blocks.%d", i), picture.h);
    }
    graft_control_residuals_finish(&r);
}
