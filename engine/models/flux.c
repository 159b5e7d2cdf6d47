#include "engine/models/flux.h"

#include "engine/engine.h"
#include "engine/models/stream.h"
#include "kernels/rope.h"

#define NAME(...) graft_name_make(__VA_ARGS__)
#define SIDE_MAX  (1 << 15) /* tokens */

/* Where a stream's vectors have what; blocks of one stream have the first three. */
enum { SHIFT, SCALE, GATE, MLP_SHIFT, MLP_SCALE, MLP_GATE, VECTORS };

/* Tokens of a picture: a grid, and its place among others. */
typedef struct flux_picture {
    int32_t rows, columns, frame, top, left;
} flux_picture;

typedef struct flux {
    graft_build b;
    const graft_flux_arch *a;
    graft_vid vec; /* SiLU of what the network is conditioned on, (N,hidden) */
    flux_picture of[1 + GRAFT_REFERENCES]; /* the latent's own, then those of the references */
    int n_pictures;
} flux;

static int64_t cells_of(const flux_picture *p)
{
    return (int64_t)p->rows * p->columns;
}

/* ------------------------------------------------------------------ attention */

/* Queries, keys and values, the first three parts of `all`; the former two normed, by weights below
 * `norm`. */
static void split(const flux *m, graft_name norm, graft_vid all, graft_vid qkv[3])
{
    const int32_t hidden = m->a->hidden, heads = m->a->heads;
    for (int i = 0; i < 3; i++)
        qkv[i] = graft_graph_slice(m->b.g, all, (int64_t)i * hidden, hidden);
    qkv[0] = graft_stream_head_normed(&m->b, NAME("%s.query_norm.scale", norm.text), qkv[0], heads);
    qkv[1] = graft_stream_head_normed(&m->b, NAME("%s.key_norm.scale", norm.text), qkv[1], heads);
}

/* The last picture's tokens are the last. Each picture is an operator over all tokens. */
static graft_vid turned(const flux *m, graft_vid v)
{
    int64_t behind = 0;
    for (int i = m->n_pictures - 1; i >= 0 && v >= 0; i--) {
        const flux_picture *p = &m->of[i];
        const graft_attrs a = graft_rope_attrs(&(graft_rope_grid){.heads = m->a->heads,
                                                                  .rows = p->rows,
                                                                  .columns = p->columns,
                                                                  .behind = (int32_t)behind,
                                                                  .top = p->top,
                                                                  .left = p->left,
                                                                  .frame = p->frame,
                                                                  .of_row = m->a->rope_dim,
                                                                  .of_column = m->a->rope_dim});
        v = graft_graph_node(m->b.g, GRAFT_OP_ROPE, &a, &v, 1, GRAFT_DTYPE_NONE);
        behind += cells_of(p);
    }
    return v;
}

static graft_vid attention(const flux *m, const graft_vid qkv[3])
{
    return graft_build_attention(&m->b, turned(m, qkv[0]), turned(m, qkv[1]), qkv[2], m->a->heads,
                                 false);
}

/* ------------------------------------------------------------------ blocks */

static graft_name of(const graft_stream *s, const char *part)
{
    return NAME("%s_%s", s->name.text, part);
}

static void projected(const flux *m, graft_stream *s, graft_vid qkv[3])
{
    graft_stream_modulate(&m->b, s, of(s, "mod.lin"), m->vec, VECTORS);
    graft_vid all = graft_build_linear(
        &m->b, of(s, "attn.qkv"), graft_stream_normed(&m->b, s, SHIFT), 3 * m->a->hidden, true);
    split(m, of(s, "attn.norm"), all, qkv);
}

/* What attention gave joins the stream, which then goes through its MLP. */
static void attended(const flux *m, graft_stream *s, graft_vid v)
{
    v = graft_build_linear(&m->b, of(s, "attn.proj"), v, m->a->hidden, true);
    s->h = graft_stream_gated(&m->b, s, GATE, v);
    v = graft_build_linear(&m->b, of(s, "mlp.0"), graft_stream_normed(&m->b, s, MLP_SHIFT),
                           m->a->mlp, true);
    v = graft_build_act(&m->b, v, GRAFT_ACT_GELU_TANH);
    v = graft_build_linear(&m->b, of(s, "mlp.2"), v, m->a->hidden, true);
    s->h = graft_stream_gated(&m->b, s, MLP_GATE, v);
}

static void double_block(const flux *m, int i, graft_stream *text, graft_stream *picture)
{
    const int64_t words = graft_build_dim(&m->b, text->h, 1);
    const int64_t cells = graft_build_dim(&m->b, picture->h, 1);
    graft_vid of_text[3], of_picture[3], both[3];
    text->name = NAME("double_blocks.%d.txt", i);
    picture->name = NAME("double_blocks.%d.img", i);
    projected(m, text, of_text);
    projected(m, picture, of_picture);
    for (int k = 0; k < 3; k++) both[k] = graft_stream_join(&m->b, of_text[k], of_picture[k]);
    graft_vid v = attention(m, both);
    attended(m, picture, graft_stream_tokens(&m->b, v, words, cells));
    attended(m, text, graft_stream_tokens(&m->b, v, 0, words));
}

static void single_block(const flux *m, int i, graft_stream *s)
{
    const graft_build *b = &m->b;
    const int32_t hidden = m->a->hidden;
    graft_vid qkv[3];
    s->name = NAME("single_blocks.%d", i);
    graft_stream_modulate(b, s, NAME("%s.modulation.lin", s->name.text), m->vec, GATE + 1);
    graft_vid all =
        graft_build_linear(b, NAME("%s.linear1", s->name.text), graft_stream_normed(b, s, SHIFT),
                           3 * hidden + m->a->mlp, true);
    split(m, NAME("%s.norm", s->name.text), all, qkv);
    graft_vid v = attention(m, qkv);
    graft_vid mlp = graft_graph_slice(b->g, all, 3 * (int64_t)hidden, m->a->mlp);
    v = graft_build_concat(b, v, graft_build_act(b, mlp, GRAFT_ACT_GELU_TANH));
    v = graft_build_linear(b, NAME("%s.linear2", s->name.text), v, hidden, true);
    s->h = graft_stream_gated(b, s, GATE, v);
}

/* ------------------------------------------------------------------ in and out */

static graft_vid embedded(const flux *m, const char *name, graft_vid v)
{
    const graft_build *b = &m->b;
    v = graft_build_cast(b, v, b->act_dtype);
    v = graft_build_linear(b, NAME("%s.in_layer", name), v, m->a->hidden, true);
    v = graft_build_act(b, v, GRAFT_ACT_SILU);
    return graft_build_linear(b, NAME("%s.out_layer", name), v, m->a->hidden, true);
}

/* A number (N), of 0 to 1000, as waves. */
static graft_vid waves(const flux *m, graft_vid t)
{
    if (t < 0) return t;
    return graft_graph_node(m->b.g, GRAFT_OP_TIMESTEP, &(graft_attrs){.up_w = m->a->time_dim}, &t,
                            1, GRAFT_F32);
}

/* The last number of y (N), a thousand times. */
static graft_vid guidance(const flux *m, graft_vid y)
{
    const int64_t n = graft_build_dim(&m->b, y, 0);
    graft_vid v = graft_graph_slice(m->b.g, y, m->a->pooled_dim, 1);
    if (v < 0) return v;
    v = graft_graph_node(m->b.g, GRAFT_OP_SCALE, &(graft_attrs){.scale = 1000}, &v, 1, GRAFT_F32);
    return graft_graph_reshape(m->b.g, v, 1, &n);
}

static graft_vid conditioned(const flux *m, graft_vid t, graft_vid y)
{
    const graft_build *b = &m->b;
    graft_vid v = embedded(m, "time_in", waves(m, t));
    if (m->a->guidance)
        v = graft_build_add(b, v, embedded(m, "guidance_in", waves(m, guidance(m, y))));
    y = m->a->guidance ? graft_graph_slice(b->g, y, 0, m->a->pooled_dim) : y;
    y = y < 0 ? y : graft_graph_node(b->g, GRAFT_OP_COPY, NULL, &y, 1, b->act_dtype);
    return graft_build_act(b, graft_build_add(b, v, embedded(m, "vector_in", y)), GRAFT_ACT_SILU);
}

/* (a,b,c,d) to (a,c,b,d), dense. */
static graft_vid exchanged(const flux *m, graft_vid v, const int64_t dim[4], graft_dtype t)
{
    v = graft_graph_reshape(m->b.g, v, 4, dim);
    v = v < 0 ? v : graft_graph_permute(m->b.g, v, (const int32_t[4]){0, 2, 1, 3});
    return v < 0 ? v : graft_graph_node(m->b.g, GRAFT_OP_COPY, NULL, &v, 1, t);
}

/* Squares of x (N,c,h,w) as tokens of (channel, row, column) each. */
static graft_vid patches(const flux *m, graft_vid x, int64_t c, const flux_picture *of)
{
    const int64_t n = graft_build_dim(&m->b, x, 0), p = m->a->patch;
    const int64_t high = of->rows, wide = of->columns;
    x = exchanged(m, x, (const int64_t[]){n * c * high, p, wide, p}, m->b.act_dtype);
    x = exchanged(m, x, (const int64_t[]){n, c, high * wide, p * p}, GRAFT_DTYPE_NONE);
    return graft_graph_reshape(m->b.g, x, 3, (const int64_t[]){n, high * wide, c * p * p});
}

/* And back. */
static graft_vid unpatched(const flux *m, graft_vid x)
{
    const int64_t n = graft_build_dim(&m->b, x, 0), p = m->a->patch, c = m->a->channels;
    const int64_t high = m->of[0].rows, wide = m->of[0].columns;
    x = exchanged(m, x, (const int64_t[]){n, high * wide, c, p * p}, GRAFT_DTYPE_NONE);
    x = exchanged(m, x, (const int64_t[]){n * c * high, wide, p, p}, GRAFT_F32);
    return graft_graph_reshape(m->b.g, x, 4, (const int64_t[]){n, c, high * p, wide * p});
}

/* Picture i of x (N,values), which begins at value `at`. */
static graft_vid cut_out(const flux *m, graft_vid x, int i, int64_t at)
{
    const int64_t n = graft_build_dim(&m->b, x, 0), p = m->a->patch, c = m->a->channels;
    const flux_picture *of = &m->of[i];
    x = graft_graph_slice(m->b.g, x, at, c * cells_of(of) * p * p);
    x = x < 0 ? x : graft_graph_node(m->b.g, GRAFT_OP_COPY, NULL, &x, 1, GRAFT_DTYPE_NONE);
    x = graft_graph_reshape(m->b.g, x, 4, (const int64_t[]){n, c, of->rows * p, of->columns * p});
    return patches(m, x, c, of);
}

/* All pictures as tokens, and the graph's first input. */
static graft_vid pictures(const flux *m, const graft_unet_shape *s)
{
    graft_graph *g = m->b.g;
    const int64_t n = s->batch, planes = m->a->channels + m->a->beside;
    const int64_t own = planes * s->height * s->width;
    const int64_t shown = graft_references_cells(&s->references, m->a->patch);
    const int64_t values = own + m->a->channels * shown;
    graft_vid v;
    if (m->n_pictures == 1) {
        v = graft_graph_input(g, GRAFT_F32, 4, (const int64_t[]){n, planes, s->height, s->width});
        v = patches(m, v, planes, &m->of[0]);
    } else {
        graft_vid x = graft_graph_input(g, GRAFT_F32, 2, (const int64_t[]){n, values});
        v = cut_out(m, x, 0, 0);
        int64_t at = own;
        for (int i = 1; i < m->n_pictures; i++) {
            v = graft_stream_join(&m->b, v, cut_out(m, x, i, at));
            at += m->a->channels * cells_of(&m->of[i]) * m->a->patch * m->a->patch;
        }
    }
    return v;
}

static graft_vid final_layer(const flux *m, graft_vid h)
{
    const graft_flux_arch *a = m->a;
    graft_stream s = {.h = h};
    graft_stream_modulate(&m->b, &s, NAME("final_layer.adaLN_modulation.1"), m->vec, SCALE + 1);
    return graft_build_linear(&m->b, NAME("final_layer.linear"),
                              graft_stream_normed(&m->b, &s, SHIFT),
                              a->patch * a->patch * a->channels, true);
}

static void check_shape(graft_graph *g, const graft_flux_arch *a, const graft_unet_shape *s)
{
    if (s->height % a->patch || s->width % a->patch)
        graft_graph_fail(g, GRAFT_E_ARG,
                         "a latent of %lldx%lld: this transformer takes multiples of %d, which are "
                         "%d pixels",
                         (long long)s->width, (long long)s->height, a->patch, 8 * a->patch);
    if (s->height / a->patch > SIDE_MAX || s->width / a->patch > SIDE_MAX)
        graft_graph_fail(g, GRAFT_E_LIMIT, "a latent of %lldx%lld is too large",
                         (long long)s->width, (long long)s->height);
    bool grids = false;
    for (int i = 0; i < GRAFT_UNET_GRIDS; i++) grids |= s->grid[i].rows || s->grid[i].columns;
    if (s->variant || s->cut || s->control || s->freeu || s->shrink.block || s->perturbed || grids)
        graft_graph_fail(g, GRAFT_E_UNSUPPORTED, "a transformer has no blocks of a UNet to change");
}

static int32_t in_tokens(const flux *m, int32_t cells)
{
    return (int32_t)(graft_reference_side(cells, m->a->patch) / m->a->patch);
}

/* Where the pictures stand. References are placed in cells, of which a token has several. */
static void place(flux *m, const graft_unet_shape *s)
{
    const graft_references *r = &s->references;
    const int32_t patch = m->a->patch;
    const bool from_corner = r->placing == GRAFT_PLACE_DIAGONAL;
    int32_t high = from_corner ? (int32_t)s->height : 0, wide = from_corner ? (int32_t)s->width : 0;
    m->of[0] = (flux_picture){(int32_t)(s->height / patch), (int32_t)(s->width / patch), 0, 0, 0};
    m->n_pictures = 1 + r->n;
    for (int i = 0; i < r->n; i++) {
        const graft_unet_grid g = r->of[i];
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
        m->of[1 + i] = (flux_picture){in_tokens(m, g.rows), in_tokens(m, g.columns),
                                      behind ? i + 1 : !diagonal, (top + patch / 2) / patch,
                                      (left + patch / 2) / patch};
        high = high > g.rows + top ? high : g.rows + top;
        wide = wide > g.columns + left ? wide : g.columns + left;
    }
}

graft_status graft_flux_build(const graft_flux_arch *a, const graft_unet_shape *shape,
                              graft_graph **out, graft_err *e)
{
    graft_graph *g = graft_graph_create();
    if (!g) return graft_fail_nomem(e, "transformer graph");
    flux m = {.b = {g, shape->act_dtype}, .a = a};
    const int64_t n = shape->batch;
    check_shape(g, a, shape);
    place(&m, shape);
    graft_vid x = pictures(&m, shape);
    graft_vid t = graft_graph_input(g, GRAFT_F32, 1, &n);
    graft_vid c = graft_graph_input(g, GRAFT_F32, 3, (int64_t[]){n, shape->tokens, a->context_dim});
    graft_vid y = graft_graph_input(g, GRAFT_F32, 2, (int64_t[]){n, graft_flux_y_width(a)});
    c = graft_build_cast(&m.b, c, shape->act_dtype);
    graft_stream text = {.h = graft_build_linear(&m.b, NAME("txt_in"), c, a->hidden, true)};
    graft_stream both = {.h = graft_build_linear(&m.b, NAME("img_in"), x, a->hidden, true)};
    m.vec = conditioned(&m, t, y);
    for (int i = 0; i < a->depth; i++) double_block(&m, i, &text, &both);
    both.h = graft_stream_join(&m.b, text.h, both.h);
    for (int i = 0; i < a->single_depth; i++) single_block(&m, i, &both);
    graft_vid h = graft_stream_tokens(&m.b, both.h, shape->tokens, cells_of(&m.of[0]));
    graft_graph_output(g, unpatched(&m, final_layer(&m, h)));
    graft_status st = graft_graph_status(g, e);
    if (!st) {
        *out = g;
        return GRAFT_OK;
    }
    graft_graph_destroy(g);
    return st;
}
