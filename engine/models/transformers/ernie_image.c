#include "engine/models/transformers/ernie_image.h"

#include "engine/models/parts/stream.h"
#include "engine/models/parts/transformer.h"

#define NAME(...) graft_name_make(__VA_ARGS__)
#define BASE      256       /* of the angles */
#define SIDE_MAX  (1 << 15) /* tokens, and of a prompt */

/* Where the vectors that all blocks are told have what. */
enum { SHIFT, SCALE, GATE, MLP_SHIFT, MLP_SCALE, MLP_GATE, VECTORS };

typedef struct ernie_image {
    graft_build b;
    const graft_ernie_image_arch *a;
    graft_vid time;     /* (N,hidden) */
    graft_vid count;    /* how many tokens count: the picture's, then those of the prompt (N) */
    graft_vid cos, sin; /* (N*tokens,1,d) float32: by what a value and its other half are taken */
    int64_t words;      /* the prompt's tokens, which are the last */
    int32_t rows, columns; /* of the picture's */
} ernie_image;

static int64_t cells(const ernie_image *m)
{
    return (int64_t)m->rows * m->columns;
}

static int32_t head_dim(const ernie_image *m)
{
    return m->a->hidden / m->a->heads;
}

static graft_vid linear(const ernie_image *m, graft_name layer, graft_vid v, int32_t width)
{
    return graft_build_linear(&m->b, layer, v, width, false);
}

/* ------------------------------------------------------------------ places */

/* (N,T,d) float32 of pairs, the cosine and the sine of no angle at all. y: any finite (N,1), which
 * lends its N. */
static graft_vid unturned(const ernie_image *m, graft_vid y, int64_t tokens)
{
    const graft_build *b = &m->b;
    const int64_t n = graft_build_dim(b, y, 0), d = head_dim(m);
    graft_vid v =
        graft_build_concat(b, graft_build_scale(b, y, 0, 1), graft_build_scale(b, y, 0, 0));
    v = graft_graph_reshape(b->g, v, 4, (const int64_t[]){n, 1, 1, 2});
    v = graft_build_upsample(b, v, tokens, d / 2);
    return graft_graph_reshape(b->g, v, 3, (const int64_t[]){n, tokens, d});
}

/* Pairs for the words, and for the one behind them: (N,words+1,d). */
static graft_vid of_words(const ernie_image *m, graft_vid y)
{
    const int32_t turned = 2 * m->a->rope_dim;
    const graft_rope_grid row = {.heads = 1,
                                 .rows = 1,
                                 .columns = (int32_t)m->words + 1,
                                 .of_column = head_dim(m) - turned,
                                 .last = turned,
                                 .base = BASE};
    return graft_build_rope(&m->b, unturned(m, y, m->words + 1), &row);
}

/* Pairs for the picture, (N,cells,d): its place on the first axis is that behind the last word
 * which counts, of which the others have the pairs. */
static graft_vid of_picture(const ernie_image *m, graft_vid words, graft_vid y)
{
    const graft_build *b = &m->b;
    const int64_t n = graft_build_dim(b, y, 0), d = head_dim(m), first = d - 2 * m->a->rope_dim;
    const graft_rope_grid grid = {.heads = 1,
                                  .rows = m->rows,
                                  .columns = m->columns,
                                  .of_row = m->a->rope_dim,
                                  .of_column = m->a->rope_dim,
                                  .base = BASE};
    const graft_vid in[2] = {words, graft_stream_count(b, y, 0)};
    if (in[0] < 0 || in[1] < 0) return GRAFT_NO_VALUE;
    graft_vid v = graft_build_rope(b, unturned(m, y, cells(m)), &grid);
    v = graft_build_dense(b, graft_graph_slice(b->g, v, first, d - first), GRAFT_DTYPE_NONE);
    if (!first) return v;
    graft_vid behind = graft_graph_node(b->g, GRAFT_OP_GATHER_ROW, NULL, in, 2, GRAFT_DTYPE_NONE);
    behind = graft_build_dense(b, graft_graph_slice(b->g, behind, 0, first), GRAFT_DTYPE_NONE);
    behind = graft_graph_reshape(b->g, behind, 4, (const int64_t[]){n, 1, 1, first});
    behind = graft_build_upsample(b, behind, m->rows, m->columns);
    behind = graft_graph_reshape(b->g, behind, 3, (const int64_t[]){n, cells(m), first});
    return graft_build_concat(b, behind, v);
}

/* Number i of the pairs (N,T,d), each twice: (N*T,1,d). */
static graft_vid each_twice(const ernie_image *m, graft_vid pairs, int i)
{
    const graft_build *b = &m->b;
    const int64_t d = head_dim(m),
                  all = graft_build_dim(b, pairs, 0) * graft_build_dim(b, pairs, 1);
    graft_vid v = graft_graph_reshape(b->g, pairs, 3, (const int64_t[]){all, d / 2, 2});
    v = graft_build_dense(b, graft_graph_slice(b->g, v, i, 1), GRAFT_DTYPE_NONE);
    return graft_graph_reshape(b->g, graft_build_concat(b, v, v), 3, (const int64_t[]){all, 1, d});
}

/* m->cos and m->sin. The first half of a head takes the sine of its other half away. */
static void place(ernie_image *m, graft_vid y)
{
    const graft_build *b = &m->b;
    const int64_t half = head_dim(m) / 2;
    graft_vid words = of_words(m, y);
    const graft_vid picture = of_picture(m, words, y);
    words = graft_stream_tokens(b, words, 0, m->words);
    const graft_vid all = graft_build_join(b, picture, words);
    m->cos = each_twice(m, all, 0);
    const graft_vid sin = each_twice(m, all, 1);
    const graft_vid first =
        graft_build_dense(b, graft_graph_slice(b->g, sin, 0, half), GRAFT_DTYPE_NONE);
    const graft_vid second =
        graft_build_dense(b, graft_graph_slice(b->g, sin, half, half), GRAFT_DTYPE_NONE);
    m->sin = graft_build_concat(b, graft_build_scale(b, first, -1, 0), second);
}

/* Queries or keys (N,T,hidden). */
static graft_vid turned(const ernie_image *m, graft_vid v)
{
    const graft_build *b = &m->b;
    const int64_t n = graft_build_dim(b, v, 0), tokens = graft_build_dim(b, v, 1);
    const int64_t d = head_dim(m), half = d / 2;
    v = graft_graph_reshape(b->g, v, 3, (const int64_t[]){n * tokens, m->a->heads, d});
    const graft_vid other = graft_build_concat(b, graft_graph_slice(b->g, v, half, half),
                                               graft_graph_slice(b->g, v, 0, half));
    const graft_vid in[3] = {other, m->sin, graft_build_mul(b, v, m->cos)};
    if (in[0] < 0 || in[1] < 0 || in[2] < 0) return GRAFT_NO_VALUE;
    v = graft_graph_node(b->g, GRAFT_OP_MUL, NULL, in, 3, GRAFT_DTYPE_NONE);
    return graft_graph_reshape(b->g, v, 3, (const int64_t[]){n, tokens, m->a->hidden});
}

/* ------------------------------------------------------------------ blocks */

static graft_vid attention(const ernie_image *m, graft_name block, graft_vid v)
{
    static const char *const names[3] = {"to_q", "to_k", "to_v"};
    const graft_name name = NAME("%s.self_attention", block.text);
    const int32_t hidden = m->a->hidden, heads = m->a->heads;
    graft_vid in[3];
    for (int i = 0; i < 3; i++) in[i] = linear(m, NAME("%s.%s", name.text, names[i]), v, hidden);
    in[0] = graft_stream_head_normed(&m->b, NAME("%s.norm_q.weight", name.text), in[0], heads);
    in[1] = graft_stream_head_normed(&m->b, NAME("%s.norm_k.weight", name.text), in[1], heads);
    in[0] = turned(m, in[0]);
    in[1] = turned(m, in[1]);
    v = graft_build_attention_counted(&m->b, in, m->count, heads);
    return linear(m, NAME("%s.to_out.0", name.text), v, hidden);
}

static graft_vid feed_forward(const ernie_image *m, graft_name block, graft_vid v)
{
    static const graft_build_gated_layers layers = {"gate_proj", "up_proj", "linear_fc2"};
    return graft_build_gated(&m->b, NAME("%s.mlp", block.text), &layers, v, m->a->mlp,
                             GRAFT_ACT_GELU);
}

/* What a branch sees: the stream, normed, times one more than vector shift + 1, plus vector shift.
 */
static graft_vid begun(const ernie_image *m, const graft_stream *s, const char *norm, int shift)
{
    const int64_t hidden = m->a->hidden;
    graft_vid v =
        graft_stream_head_normed(&m->b, NAME("%s.%s.weight", s->name.text, norm), s->h, 1);
    v = graft_build_mul(&m->b, v,
                        graft_graph_slice(m->b.g, s->scales, (shift + 1) * hidden, hidden));
    const graft_vid more = graft_graph_slice(m->b.g, s->shifts, shift * hidden, hidden);
    return graft_build_add(&m->b, v, graft_build_cast(&m->b, more, m->b.act_dtype));
}

static void block(const ernie_image *m, int i, graft_stream *s)
{
    s->name = NAME("layers.%d", i);
    graft_vid v = attention(m, s->name, begun(m, s, "adaLN_sa_ln", SHIFT));
    s->h = graft_stream_gated(&m->b, s, GATE, v);
    v = feed_forward(m, s->name, begun(m, s, "adaLN_mlp_ln", MLP_SHIFT));
    s->h = graft_stream_gated(&m->b, s, MLP_GATE, v);
}

/* ------------------------------------------------------------------ in and out */

/* m->time. TIMESTEP's cosines stand before its sines; here they stand behind them. */
static void condition(ernie_image *m, graft_vid t)
{
    const graft_build *b = &m->b;
    const int32_t hidden = m->a->hidden;
    const int64_t half = hidden / 2;
    t = graft_build_waves(b, t, hidden);
    const graft_vid cosines =
        graft_build_dense(b, graft_graph_slice(b->g, t, 0, half), b->act_dtype);
    const graft_vid sines =
        graft_build_dense(b, graft_graph_slice(b->g, t, half, half), b->act_dtype);
    t = graft_build_linear(b, NAME("time_embedding.linear_1"),
                           graft_build_concat(b, sines, cosines), hidden, true);
    t = graft_build_act(b, t, GRAFT_ACT_SILU);
    m->time = graft_build_linear(b, NAME("time_embedding.linear_2"), t, hidden, true);
}

static graft_vid picture(const ernie_image *m, graft_vid x)
{
    const int64_t n = graft_build_dim(&m->b, x, 0);
    x = graft_build_to_nhwc(&m->b, x, m->b.act_dtype);
    x = graft_graph_reshape(m->b.g, x, 3, (const int64_t[]){n, cells(m), m->a->channels});
    return graft_build_linear(&m->b, NAME("x_embedder.proj"), x, m->a->hidden, true);
}

static graft_vid prompt(const ernie_image *m, graft_vid v)
{
    v = graft_build_cast(&m->b, v, m->b.act_dtype);
    return m->a->own_text ? linear(m, NAME("text_proj"), v, m->a->hidden) : v;
}

/* Here the scale stands before the shift, and the time is told without an activation. */
static graft_vid final_layer(const ernie_image *m, graft_vid h)
{
    const int64_t hidden = m->a->hidden;
    graft_stream s = {.h = h};
    graft_stream_modulate(&m->b, &s, NAME("final_norm.linear"), m->time, 2);
    const graft_vid in[3] = {h, graft_graph_slice(m->b.g, s.scales, 0, hidden),
                             graft_graph_slice(m->b.g, s.shifts, hidden, hidden)};
    if (in[0] < 0 || in[1] < 0 || in[2] < 0) return GRAFT_NO_VALUE;
    h = graft_graph_node(m->b.g, GRAFT_OP_LAYER_NORM, &(graft_attrs){.eps = GRAFT_STREAM_EPS}, in,
                         3, GRAFT_DTYPE_NONE);
    h = graft_build_linear(&m->b, NAME("final_linear"), h, m->a->channels, true);
    h = graft_graph_reshape(
        m->b.g, h, 4,
        (const int64_t[]){graft_build_dim(&m->b, h, 0), m->rows, m->columns, m->a->channels});
    return graft_build_to_nchw(&m->b, h, GRAFT_F32);
}

static void check_shape(graft_graph *g, const graft_net_shape *s)
{
    graft_transformer_check_side(g, s, 1, SIDE_MAX);
    graft_transformer_check_tokens(g, s, 1, SIDE_MAX);
    graft_transformer_check_wide(g, s, "ERNIE-Image");
    graft_transformer_check_unchanged(g, s, s->control || s->perturbed);
}

graft_status graft_ernie_image_build(const graft_ernie_image_arch *a, const graft_net_shape *shape,
                                     graft_graph **out, graft_err *e)
{
    graft_graph *g = graft_graph_create();
    if (!g) return graft_fail_nomem(e, "transformer graph");
    const int64_t n = shape->batch, h = shape->height, w = shape->width;
    ernie_image m = {.b = {g, shape->act_dtype}, .a = a, .words = shape->tokens};
    check_shape(g, shape);
    m.rows = (int32_t)h;
    m.columns = (int32_t)w;
    const graft_vid x = graft_graph_input(g, GRAFT_F32, 4, (int64_t[]){n, a->channels, h, w});
    const graft_vid t = graft_graph_input(g, GRAFT_F32, 1, &n);
    const graft_vid c = graft_graph_input(g, GRAFT_F32, 3, (int64_t[]){n, m.words, a->context_dim});
    const graft_vid y = graft_graph_input(g, GRAFT_F32, 2, (int64_t[]){n, 1});
    m.count = graft_stream_count(&m.b, y, cells(&m));
    place(&m, y);
    condition(&m, t);
    graft_stream both = {.h = graft_build_join(&m.b, picture(&m, x), prompt(&m, c))};
    graft_stream_modulate(&m.b, &both, NAME("adaLN_modulation.1"),
                          graft_build_act(&m.b, m.time, GRAFT_ACT_SILU), VECTORS);
    for (int i = 0; i < a->depth; i++) block(&m, i, &both);
    graft_graph_output(g, final_layer(&m, graft_stream_tokens(&m.b, both.h, 0, cells(&m))));
    graft_status st = graft_graph_status(g, e);
    if (!st) {
        *out = g;
        return GRAFT_OK;
    }
    graft_graph_destroy(g);
    return st;
}
