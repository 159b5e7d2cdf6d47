#include "engine/models/transformers/ideogram4.h"

#include "engine/models/parts/stream.h"
#include "engine/models/parts/transformer.h"
#include "engine/models/parts/turned.h"

#define NAME(...) graft_name_make(__VA_ARGS__)
#define EPS       1e-5f     /* of the blocks' norms */
#define TEXT_EPS  1e-6f     /* of the prompt's */
#define BASE      5e6f      /* of rotations */
#define PLACE     65536     /* where the picture begins on each axis */
#define SQUARE    4         /* cells of the VAE in a token */
#define SIDE_MAX  (1 << 15) /* tokens, and of a prompt */

/* Where a block's vectors have what. */
enum { SCALE, GATE, MLP_SCALE, MLP_GATE, VECTORS };

typedef struct ideogram4 {
    graft_build b;
    const graft_ideogram4_arch *a;
    graft_vid told;        /* the time, (N,told) */
    graft_vid count;       /* how many tokens count: the picture's, then those of the prompt (N) */
    int64_t words;         /* the prompt's tokens, which are the last */
    int32_t rows, columns; /* of the picture's */
} ideogram4;

static int64_t cells(const ideogram4 *m)
{
    return (int64_t)m->rows * m->columns;
}

static graft_vid linear(const ideogram4 *m, graft_name layer, graft_vid v, int32_t width)
{
    return graft_build_linear(&m->b, layer, v, width, false);
}

static graft_vid normed(const ideogram4 *m, graft_name layer, graft_vid v, int32_t heads)
{
    return graft_build_rms_norm(&m->b, NAME("%s.weight", layer.text), v, heads, EPS);
}

/* ------------------------------------------------------------------ attention */

static graft_vid turned(const ideogram4 *m, graft_vid v)
{
    const int32_t heads = m->a->heads;
    const graft_rope_grid picture = {.heads = heads,
                                     .rows = m->rows,
                                     .columns = m->columns,
                                     .behind = (int32_t)m->words,
                                     .top = PLACE,
                                     .left = PLACE,
                                     .frame = PLACE,
                                     .of_row = m->a->rope_dim,
                                     .of_column = m->a->rope_dim,
                                     .mixed = true,
                                     .base = BASE};
    /* Of words all axes have one place. */
    const graft_rope_grid words = {.heads = heads,
                                   .rows = (int32_t)m->words,
                                   .columns = 1,
                                   .of_row = m->a->hidden / heads,
                                   .base = BASE};
    return graft_build_rope(&m->b, graft_turned_on(&m->b, v, &picture), &words);
}

static graft_vid attention(const ideogram4 *m, graft_name block, graft_vid v)
{
    const int32_t hidden = m->a->hidden, heads = m->a->heads;
    const graft_name name = NAME("%s.attention", block.text);
    graft_vid in[3];
    v = linear(m, NAME("%s.qkv", name.text), v, 3 * hidden);
    for (int i = 0; i < 3; i++) in[i] = graft_graph_slice(m->b.g, v, (int64_t)i * hidden, hidden);
    in[0] = turned(m, normed(m, NAME("%s.norm_q", name.text), in[0], heads));
    in[1] = turned(m, normed(m, NAME("%s.norm_k", name.text), in[1], heads));
    v = graft_build_attention_counted(&m->b, in, m->count, heads);
    return linear(m, NAME("%s.o", name.text), v, hidden);
}

/* ------------------------------------------------------------------ blocks */

static graft_vid feed_forward(const ideogram4 *m, graft_name block, graft_vid v)
{
    static const graft_build_gated_layers layers = {"w1", "w3", "w2"};
    return graft_build_gated(&m->b, NAME("%s.feed_forward", block.text), &layers, v, m->a->mlp,
                             GRAFT_ACT_SILU);
}

/* What a branch sees: the stream, normed and scaled. */
static graft_vid begun(const ideogram4 *m, const graft_stream *s, const char *norm, int scale)
{
    const int64_t hidden = m->a->hidden;
    const graft_vid v = normed(m, NAME("%s.%s", s->name.text, norm), s->h, 1);
    return graft_build_mul(&m->b, v, graft_graph_slice(m->b.g, s->scales, scale * hidden, hidden));
}

static void joins(const ideogram4 *m, graft_stream *s, const char *norm, int gate, graft_vid v)
{
    v = normed(m, NAME("%s.%s", s->name.text, norm), v, 1);
    s->h = graft_stream_gated(&m->b, s, gate, v);
}

static void block(const ideogram4 *m, int i, graft_stream *s)
{
    s->name = NAME("layers.%d", i);
    graft_stream_modulate(&m->b, s, NAME("%s.adaln_modulation", s->name.text), m->told, VECTORS);
    /* Nothing is shifted: the gates stand there. */
    s->shifts = graft_build_act(&m->b, s->shifts, GRAFT_ACT_TANH);
    graft_vid v = begun(m, s, "attention_norm1", SCALE);
    joins(m, s, "attention_norm2", GATE, attention(m, s->name, v));
    v = begun(m, s, "ffn_norm1", MLP_SCALE);
    joins(m, s, "ffn_norm2", MLP_GATE, feed_forward(m, s->name, v));
}

/* ------------------------------------------------------------------ in and out */

/* Sines, then cosines, of t * 10000^(-i/(half - 1)): one frequency more than TIMESTEP has between
 * its ends, so that the last is a number of its own. */
static graft_vid waves(const ideogram4 *m, graft_vid t)
{
    const graft_build *b = &m->b;
    const int32_t most = m->a->hidden / 2 - 1;
    const graft_vid first = graft_build_waves(b, t, 2 * most);
    const graft_vid last = graft_build_waves(b, graft_build_scale(b, t, 1e-4f, 0), 2);
    graft_vid half[2];
    for (int i = 0; i < 2; i++) {
        const int64_t at = i ? 0 : 1;
        const graft_vid v = graft_graph_slice(b->g, first, at * most, most);
        const graft_vid end = graft_graph_slice(b->g, last, at, 1);
        half[i] = graft_build_concat(b, graft_build_dense(b, v, GRAFT_DTYPE_NONE),
                                     graft_build_dense(b, end, GRAFT_DTYPE_NONE));
    }
    return graft_build_concat(b, half[0], half[1]);
}

/* m->told. The network is told 10000 where nothing is noise. */
static void condition(ideogram4 *m, graft_vid t)
{
    const graft_build *b = &m->b;
    const int32_t hidden = m->a->hidden;
    t = waves(m, graft_build_scale(b, t, -10, 10000));
    t = graft_build_cast(b, t, b->act_dtype);
    t = graft_build_linear(b, NAME("t_embedding.mlp_in"), t, hidden, true);
    t = graft_build_act(b, t, GRAFT_ACT_SILU);
    t = graft_build_linear(b, NAME("t_embedding.mlp_out"), t, hidden, true);
    t = graft_build_linear(b, NAME("adaln_proj"), t, m->a->told, true);
    m->told = graft_build_act(b, t, GRAFT_ACT_SILU);
}

/* v (N,T,hidden) plus the vector that tells the picture's tokens, or those of the prompt: a row of
 * a table of two, chosen by a one among zeros. y: any (N,1), which lends its shape. */
static graft_vid marked(const ideogram4 *m, graft_vid v, bool picture, graft_vid y)
{
    const graft_build *b = &m->b;
    const int64_t hidden = m->a->hidden, n = graft_build_dim(b, y, 0);
    const graft_vid none = graft_build_scale(b, y, 0, 0), one = graft_build_scale(b, y, 0, 1);
    graft_vid row = picture ? graft_build_concat(b, none, one) : graft_build_concat(b, one, none);
    row = graft_build_linear_by(b, graft_build_cast(b, row, b->act_dtype),
                                graft_graph_weight_transposed(b->g, "embed_image_indicator.weight",
                                                              (const int64_t[2]){hidden, 2}),
                                GRAFT_NO_VALUE);
    row = graft_graph_reshape(b->g, row, 3, (const int64_t[]){n, 1, hidden});
    return graft_build_add(b, v, row);
}

/* (N,words,LAYERS*width), layer after layer, as (N,words,hidden). */
static graft_vid prompt(const ideogram4 *m, graft_vid v)
{
    const int64_t n = graft_build_dim(&m->b, v, 0), all = m->a->context_dim;
    v = graft_graph_reshape(
        m->b.g, v, 4,
        (const int64_t[]){n, m->words, GRAFT_IDEOGRAM4_LAYERS, all / GRAFT_IDEOGRAM4_LAYERS});
    v = graft_build_permuted(&m->b, v, (const int32_t[4]){0, 1, 3, 2}, GRAFT_F32);
    v = graft_graph_reshape(m->b.g, v, 3, (const int64_t[]){n, m->words, all});
    v = graft_build_rms_norm(&m->b, NAME("llm_cond_norm.weight"), v, 1, TEXT_EPS);
    v = graft_build_cast(&m->b, v, m->b.act_dtype);
    return graft_build_linear(&m->b, NAME("llm_cond_proj"), v, m->a->hidden, true);
}

/* Between planes, 4 c + i for channel c of cell i of a square, and a token's numbers, in which the
 * channels of a cell follow each other. */
static graft_vid exchanged(const ideogram4 *m, graft_vid v, bool in)
{
    const int64_t n = graft_build_dim(&m->b, v, 0), channels = m->a->channels / SQUARE;
    const int64_t planes[4] = {n, channels, SQUARE, cells(m)};
    const int64_t tokens[4] = {n, cells(m), SQUARE, channels};
    v = graft_graph_reshape(m->b.g, v, 4, in ? planes : tokens);
    return graft_build_permuted(&m->b, v, (const int32_t[4]){0, 3, 2, 1},
                                in ? m->b.act_dtype : GRAFT_F32);
}

static graft_vid picture(const ideogram4 *m, graft_vid x)
{
    const int64_t n = graft_build_dim(&m->b, x, 0);
    x = graft_graph_reshape(m->b.g, exchanged(m, x, true), 3,
                            (const int64_t[]){n, cells(m), m->a->channels});
    return graft_build_linear(&m->b, NAME("input_proj"), x, m->a->hidden, true);
}

/* Scaled by the time, but not shifted. */
static graft_vid final_layer(const ideogram4 *m, graft_vid h)
{
    graft_stream s = {.h = h};
    graft_stream_modulate(&m->b, &s, NAME("final_layer.adaln_modulation"),
                          graft_build_act(&m->b, m->told, GRAFT_ACT_SILU), 1);
    const graft_vid in[3] = {h, s.scales, graft_build_scale(&m->b, s.shifts, 0, 0)};
    if (in[0] < 0 || in[1] < 0 || in[2] < 0) return GRAFT_NO_VALUE;
    h = graft_graph_node(m->b.g, GRAFT_OP_LAYER_NORM, &(graft_attrs){.eps = GRAFT_STREAM_EPS}, in,
                         3, GRAFT_DTYPE_NONE);
    return graft_build_linear(&m->b, NAME("final_layer.linear"), h, m->a->channels, true);
}

static void check_shape(graft_graph *g, const graft_net_shape *s)
{
    graft_transformer_check_side(g, s, 1, SIDE_MAX);
    graft_transformer_check_tokens(g, s, 1, SIDE_MAX);
    graft_transformer_check_wide(g, s, "Ideogram 4");
    graft_transformer_check_unchanged(g, s, s->control || s->perturbed);
}

graft_status graft_ideogram4_build(const graft_ideogram4_arch *a, const graft_net_shape *shape,
                                   graft_graph **out, graft_err *e)
{
    graft_graph *g = graft_graph_create();
    if (!g) return graft_fail_nomem(e, "transformer graph");
    const int64_t n = shape->batch, h = shape->height, w = shape->width;
    ideogram4 m = {.b = {g, shape->act_dtype}, .a = a, .words = shape->tokens};
    check_shape(g, shape);
    m.rows = (int32_t)h;
    m.columns = (int32_t)w;
    graft_vid x = graft_graph_input(g, GRAFT_F32, 4, (int64_t[]){n, a->channels, h, w});
    graft_vid t = graft_graph_input(g, GRAFT_F32, 1, &n);
    graft_vid c = graft_graph_input(g, GRAFT_F32, 3, (int64_t[]){n, m.words, a->context_dim});
    graft_vid y = graft_graph_input(g, GRAFT_F32, 2, (int64_t[]){n, 1});
    m.count = graft_stream_count(&m.b, y, cells(&m));
    condition(&m, t);
    c = marked(&m, prompt(&m, c), false, y);
    graft_stream both = {.h = graft_build_join(&m.b, marked(&m, picture(&m, x), true, y), c)};
    for (int i = 0; i < a->depth; i++) block(&m, i, &both);
    x = final_layer(&m, graft_stream_tokens(&m.b, both.h, 0, cells(&m)));
    x = graft_graph_reshape(g, exchanged(&m, x, false), 4, (int64_t[]){n, a->channels, h, w});
    graft_graph_output(g, graft_build_scale(&m.b, x, -1, 0));
    graft_status st = graft_graph_status(g, e);
    if (!st) {
        *out = g;
        return GRAFT_OK;
    }
    graft_graph_destroy(g);
    return st;
}
