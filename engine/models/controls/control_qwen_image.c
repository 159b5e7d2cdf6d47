#include "engine/models/controls/control_qwen_image.h"

#include "engine/models/transformers/qwen_image_blocks.h"

#define NAME(...) graft_name_make(__VA_ARGS__)

void graft_control_qwen_image_hint(const graft_control_arch *a, int64_t batch, int64_t height,
                                   int64_t width, const graft_build *b)
{
    const int32_t patch = a->qwen_image.patch, hidden = a->qwen_image.hidden;
    const int64_t dim[4] = {batch, height / patch, width / patch, hidden};
    graft_vid v =
        graft_graph_input(b->g, GRAFT_F32, 4, (int64_t[]){batch, a->hint_channels, height, width});
    v = graft_stream_plane_patches(b, v, patch);
    v = graft_build_linear(b, NAME(a->within ? "img_in" : "controlnet_x_embedder"), v, hidden,
                           true);
    graft_graph_output(b->g, graft_graph_reshape(b->g, v, 4, dim));
}

/* The latent's tokens and the hint's, for all rows. */
static graft_vid pictures(const graft_qwen_image_blocks *m, const graft_control_shape *s,
                          graft_vid x, graft_vid hint)
{
    const graft_build *b = &m->b;
    const int64_t dim[3] = {s->pictures, graft_qwen_image_cells(m, 0), m->a->hidden};
    x = graft_graph_slice_rows(b->g, x, 0, s->pictures);
    x = graft_stream_plane_patches(b, x, m->a->patch);
    x = graft_build_linear(b, NAME("img_in"), x, m->a->hidden, true);
    hint = graft_graph_reshape(b->g, hint, 3, dim);
    return graft_control_wide(b, graft_build_add(b, x, hint), s->batch);
}

void graft_control_qwen_image(const graft_control_arch *a, const graft_control_shape *s,
                              const graft_build *b)
{
    const graft_qwen_image_arch *q = &a->qwen_image;
    graft_graph *g = b->g;
    const int64_t n = s->batch, rows = s->height / q->patch, columns = s->width / q->patch;
    graft_qwen_image_blocks m = {.b = *b,
                                 .a = q,
                                 .vec_clean = GRAFT_NO_VALUE,
                                 .words = s->tokens,
                                 .of = {{(int32_t)rows, (int32_t)columns}},
                                 .n_pictures = 1};
    graft_qwen_image_place(&m);
    graft_vid x =
        graft_graph_input(g, GRAFT_F32, 4, (int64_t[]){n, q->channels, s->height, s->width});
    graft_vid t = graft_graph_input(g, GRAFT_F32, 1, &n);
    graft_vid c = graft_graph_input(g, GRAFT_F32, 3, (int64_t[]){n, s->tokens, q->context_dim});
    m.count = graft_qwen_image_count(&m, graft_graph_input(g, GRAFT_F32, 2, (int64_t[]){n, 1}));
    graft_vid hint =
        graft_graph_input(g, s->act_dtype, 4, (int64_t[]){s->pictures, rows, columns, q->hidden});
    graft_control_residuals r;
    graft_control_residuals_init(&r, b, s, q->hidden, q->patch);
    graft_control_residuals_before(&r);
    graft_stream text = {.h = graft_qwen_image_prompt(&m, c)};
    graft_qwen_image_pictures p = {.own.h = pictures(&m, s, x, hint), .clean.h = GRAFT_NO_VALUE};
    m.vec = graft_qwen_image_conditioned(&m, t);
    for (int i = 0; i < q->depth; i++) {
        graft_qwen_image_block(&m, i, &text, &p);
        graft_control_residual(&r, 0, i, NAME("controlnet_blocks.%d", i), p.own.h);
    }
    graft_control_residuals_finish(&r);
}
