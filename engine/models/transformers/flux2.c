#include "engine/models/transformers/flux2.h"

#include "engine/engine.h"
#include "engine/models/parts/stream.h"
#include "engine/models/parts/transformer.h"

#define NAME(...) graft_name_make(__VA_ARGS__)
#define BASE      2000      /* of rotations */
#define APART     10        /* from one picture to the next, on the first axis */
#define SIDE_MAX  (1 << 15) /* tokens, and of a prompt */

/* Where a stream's vectors have what; blocks of one stream have the first three. */
enum { SHIFT, SCALE, GATE, MLP_SHIFT, MLP_SCALE, MLP_GATE, VECTORS };

typedef struct flux2 {
    graft_build b;
    const graft_flux2_arch *a;
    graft_vid vec; /* SiLU of what the network is conditioned on, (N,hidden) */
    int64_t words; /* tokens of the prompt, which are the first */
    /* The latent's own, then those of the references; they are the last tokens. */
    graft_grid of[1 + GRAFT_REFERENCES];
    int n_pictures;
} flux2;

static int64_t cells(const flux2 *m, int picture)
{
    return (int64_t)m->of[picture].rows * m->of[picture].columns;
}

static graft_vid linear(const flux2 *m, graft_name layer, graft_vid v, int32_t width)
{
    return graft_build_linear(&m->b, layer, v, width, false);
}

/* ------------------------------------------------------------------ attention */

static graft_vid rotated(const flux2 *m, graft_vid v, graft_rope_grid grid)
{
    grid.heads = m->a->heads;
    grid.base = BASE;
    return graft_build_rope(&m->b, v, &grid);
}

/* Words are a grid of one row, whose columns turn the last axis; a picture's turn those before. The
 * last picture's tokens are the last. Each is an operator over all tokens. */
static graft_vid turned(const flux2 *m, graft_vid v)
{
    const int32_t axis = m->a->hidden / m->a->heads / 4;
    int64_t behind = 0;
    for (int i = m->n_pictures - 1; i >= 0; i--) {
        v = rotated(m, v,
                    (graft_rope_grid){.rows = m->of[i].rows,
                                      .columns = m->of[i].columns,
                                      .behind = (int32_t)behind,
                                      .frame = APART * i,
                                      .of_row = axis,
                                      .of_column = axis,
                                      .last = axis});
        behind += cells(m, i);
    }
    return rotated(
        m, v,
        (graft_rope_grid){
            .rows = 1, .columns = (int32_t)m->words, .behind = (int32_t)behind, .of_column = axis});
}

/* Queries, keys and values, the first three parts of `all`; the former two normed, by weights below
 * `norm`. */
static void split(const flux2 *m, graft_name norm, graft_vid all, graft_vid qkv[3])
{
    const int32_t hidden = m->a->hidden, heads = m->a->heads;
    for (int i = 0; i < 3; i++)
        qkv[i] = graft_graph_slice(m->b.g, all, (int64_t)i * hidden, hidden);
    qkv[0] = graft_stream_head_normed(&m->b, NAME("%s.query_norm.scale", norm.text), qkv[0], heads);
    qkv[1] = graft_stream_head_normed(&m->b, NAME("%s.key_norm.scale", norm.text), qkv[1], heads);
}

static graft_vid attention(const flux2 *m, const graft_vid qkv[3])
{
    return graft_build_attention(&m->b, turned(m, qkv[0]), turned(m, qkv[1]), qkv[2], m->a->heads,
                                 false);
}

/* ------------------------------------------------------------------ blocks */

/* The values of `all` from this one on: a gate, and as many that it lets through. */
static graft_vid gated(const flux2 *m, graft_vid all, int64_t from)
{
    const int64_t mlp = m->a->mlp;
    const graft_vid gate =
        graft_build_act(&m->b, graft_graph_slice(m->b.g, all, from, mlp), GRAFT_ACT_SILU);
    return graft_build_mul(&m->b, gate, graft_graph_slice(m->b.g, all, from + mlp, mlp));
}

static graft_name of(const graft_stream *s, const char *part)
{
    return NAME("%s_%s", s->name.text, part);
}

static void projected(const flux2 *m, const graft_stream *s, graft_vid qkv[3])
{
    graft_vid v = graft_stream_normed(&m->b, s, SHIFT);
    split(m, of(s, "attn.norm"), linear(m, of(s, "attn.qkv"), v, 3 * m->a->hidden), qkv);
}

/* What attention gave joins the stream, which then goes through its MLP. */
static void attended(const flux2 *m, graft_stream *s, graft_vid v)
{
    v = linear(m, of(s, "attn.proj"), v, m->a->hidden);
    s->h = graft_stream_gated(&m->b, s, GATE, v);
    v = linear(m, of(s, "mlp.0"), graft_stream_normed(&m->b, s, MLP_SHIFT), 2 * m->a->mlp);
    v = linear(m, of(s, "mlp.2"), gated(m, v, 0), m->a->hidden);
    s->h = graft_stream_gated(&m->b, s, MLP_GATE, v);
}

static void double_block(const flux2 *m, int i, graft_stream *text, graft_stream *picture)
{
    const int64_t shown = graft_build_dim(&m->b, picture->h, 1);
    graft_vid of_text[3], of_picture[3], both[3];
    text->name = NAME("double_blocks.%d.txt", i);
    picture->name = NAME("double_blocks.%d.img", i);
    projected(m, text, of_text);
    projected(m, picture, of_picture);
    for (int k = 0; k < 3; k++) both[k] = graft_build_join(&m->b, of_text[k], of_picture[k]);
    graft_vid v = attention(m, both);
    attended(m, picture, graft_stream_tokens(&m->b, v, m->words, shown));
    attended(m, text, graft_stream_tokens(&m->b, v, 0, m->words));
}

static void single_block(const flux2 *m, int i, graft_stream *s)
{
    const int32_t qkv_width = 3 * m->a->hidden;
    graft_vid qkv[3];
    s->name = NAME("single_blocks.%d", i);
    graft_vid all = linear(m, NAME("%s.linear1", s->name.text),
                           graft_stream_normed(&m->b, s, SHIFT), qkv_width + 2 * m->a->mlp);
    split(m, NAME("%s.norm", s->name.text), all, qkv);
    graft_vid v = graft_build_concat(&m->b, attention(m, qkv), gated(m, all, qkv_width));
    v = linear(m, NAME("%s.linear2", s->name.text), v, m->a->hidden);
    s->h = graft_stream_gated(&m->b, s, GATE, v);
}

/* ------------------------------------------------------------------ in and out */

/* A number (N), of 0 to 1000, as waves and then as a vector. */
static graft_vid embedded(const flux2 *m, const char *name, graft_vid t)
{
    const graft_build *b = &m->b;
    t = graft_build_cast(b, graft_build_waves(b, t, m->a->time_dim), b->act_dtype);
    t = linear(m, NAME("%s.in_layer", name), t, m->a->hidden);
    t = graft_build_act(b, t, GRAFT_ACT_SILU);
    return linear(m, NAME("%s.out_layer", name), t, m->a->hidden);
}

/* m->vec; y (N,1), the guidance scale, or GRAFT_NO_VALUE. */
static graft_vid conditioned(const flux2 *m, graft_vid t, graft_vid y)
{
    graft_vid v = embedded(m, "time_in", t);
    if (m->a->guidance && y >= 0) {
        const int64_t n = graft_build_dim(&m->b, y, 0);
        y = graft_graph_reshape(m->b.g, graft_build_scale(&m->b, y, 1000, 0), 1, &n);
        v = graft_build_add(&m->b, v, embedded(m, "guidance_in", y));
    }
    return graft_build_act(&m->b, v, GRAFT_ACT_SILU);
}

/* A picture (N,channels,rows,columns) as tokens, a cell each. */
static graft_vid tokens(const flux2 *m, graft_vid x, int picture)
{
    const int64_t n = graft_build_dim(&m->b, x, 0);
    x = graft_build_to_nhwc(&m->b, x, m->b.act_dtype);
    return graft_graph_reshape(m->b.g, x, 3, (int64_t[]){n, cells(m, picture), m->a->channels});
}

/* Picture i of x (N,values), which begins at value `at`. */
static graft_vid cut_out(const flux2 *m, graft_vid x, int i, int64_t at)
{
    const int64_t n = graft_build_dim(&m->b, x, 0), c = m->a->channels;
    x = graft_graph_slice(m->b.g, x, at, c * cells(m, i));
    x = graft_build_dense(&m->b, x, GRAFT_DTYPE_NONE);
    return tokens(
        m, graft_graph_reshape(m->b.g, x, 4, (int64_t[]){n, c, m->of[i].rows, m->of[i].columns}),
        i);
}

/* All pictures as tokens, and the graph's first input. */
static graft_vid pictures(const flux2 *m, int64_t n)
{
    const int64_t c = m->a->channels;
    if (m->n_pictures == 1) {
        const int64_t dim[4] = {n, c, m->of[0].rows, m->of[0].columns};
        return tokens(m, graft_graph_input(m->b.g, GRAFT_F32, 4, dim), 0);
    }
    int64_t values = 0, at = 0;
    for (int i = 0; i < m->n_pictures; i++) values += c * cells(m, i);
    const graft_vid x = graft_graph_input(m->b.g, GRAFT_F32, 2, (int64_t[]){n, values});
    graft_vid v = cut_out(m, x, 0, 0);
    for (int i = 1; i < m->n_pictures; i++) {
        at += c * cells(m, i - 1);
        v = graft_build_join(&m->b, v, cut_out(m, x, i, at));
    }
    return v;
}

static graft_vid final_layer(const flux2 *m, graft_vid h)
{
    const int64_t n = graft_build_dim(&m->b, h, 0), c = m->a->channels;
    graft_stream s = {.h = h};
    graft_stream_modulate_unbiased(&m->b, &s, NAME("final_layer.adaLN_modulation.1"), m->vec,
                                   SCALE + 1);
    h = linear(m, NAME("final_layer.linear"), graft_stream_normed(&m->b, &s, SHIFT),
               m->a->channels);
    h = graft_graph_reshape(m->b.g, h, 4, (int64_t[]){n, m->of[0].rows, m->of[0].columns, c});
    return graft_build_to_nchw(&m->b, h, GRAFT_F32);
}

static void check_shape(graft_graph *g, const graft_net_shape *s)
{
    graft_transformer_check_side(g, s, 1, SIDE_MAX);
    graft_transformer_check_tokens(g, s, 1, SIDE_MAX);
    graft_transformer_check_wide(g, s, "FLUX.2");
    graft_transformer_check_unchanged(g, s, s->control || s->perturbed);
}

static void place(flux2 *m, const graft_net_shape *s)
{
    const graft_references *r = &s->references;
    m->of[0] = (graft_grid){(int32_t)s->height, (int32_t)s->width};
    m->n_pictures = 1 + r->n;
    if (r->placing == GRAFT_PLACE_DIAGONAL)
        graft_graph_fail(m->b.g, GRAFT_E_UNSUPPORTED,
                         "FLUX.2's references stand each by itself, not along a diagonal as UNO's "
                         "for FLUX.1");
    if (r->placing == GRAFT_PLACE_CLEAN)
        graft_graph_fail(m->b.g, GRAFT_E_UNSUPPORTED,
                         "FLUX.2's references have no timestep of their own");
    for (int i = 0; i < r->n; i++) {
        m->of[1 + i] = r->of[i];
        if (r->of[i].rows < 1 || r->of[i].columns < 1 || r->of[i].rows > SIDE_MAX ||
            r->of[i].columns > SIDE_MAX)
            graft_graph_fail(m->b.g, GRAFT_E_ARG, "a reference of %d x %d", r->of[i].columns,
                             r->of[i].rows);
    }
}

/* What came out of the blocks for the latent's own tokens. */
static graft_vid all_blocks(const flux2 *m, graft_vid words, graft_vid shown)
{
    graft_stream text = {.h = words}, picture = {.h = shown}, both = {.h = words};
    graft_stream_modulate_unbiased(&m->b, &text, NAME("double_stream_modulation_txt.lin"), m->vec,
                                   VECTORS);
    graft_stream_modulate_unbiased(&m->b, &picture, NAME("double_stream_modulation_img.lin"),
                                   m->vec, VECTORS);
    graft_stream_modulate_unbiased(&m->b, &both, NAME("single_stream_modulation.lin"), m->vec,
                                   GATE + 1);
    for (int i = 0; i < m->a->depth; i++) double_block(m, i, &text, &picture);
    both.h = graft_build_join(&m->b, text.h, picture.h);
    for (int i = 0; i < m->a->single_depth; i++) single_block(m, i, &both);
    return graft_stream_tokens(&m->b, both.h, m->words, cells(m, 0));
}

graft_status graft_flux2_build(const graft_flux2_arch *a, const graft_net_shape *shape,
                               graft_graph **out, graft_err *e)
{
    graft_graph *g = graft_graph_create();
    if (!g) return graft_fail_nomem(e, "transformer graph");
    flux2 m = {.b = {g, shape->act_dtype}, .a = a, .words = shape->tokens};
    const int64_t n = shape->batch;
    graft_vid y = GRAFT_NO_VALUE;
    check_shape(g, shape);
    place(&m, shape);
    graft_vid x = pictures(&m, n);
    graft_vid t = graft_graph_input(g, GRAFT_F32, 1, &n);
    graft_vid c = graft_graph_input(g, GRAFT_F32, 3, (int64_t[]){n, m.words, a->context_dim});
    if (a->guidance) y = graft_graph_input(g, GRAFT_F32, 2, (int64_t[]){n, 1});
    m.vec = conditioned(&m, t, shape->untold ? GRAFT_NO_VALUE : y);
    c = linear(&m, NAME("txt_in"), graft_build_cast(&m.b, c, shape->act_dtype), a->hidden);
    x = linear(&m, NAME("img_in"), x, a->hidden);
    graft_graph_output(g, final_layer(&m, all_blocks(&m, c, x)));
    graft_status st = graft_graph_status(g, e);
    if (!st) {
        *out = g;
        return GRAFT_OK;
    }
    graft_graph_destroy(g);
    return st;
}
