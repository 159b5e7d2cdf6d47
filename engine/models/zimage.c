#include "engine/models/zimage.h"

#include "engine/models/stream.h"
#include "engine/models/transformer.h"

#define NAME(...) graft_name_make(__VA_ARGS__)
#define EPS       1e-5f     /* of norms by the root mean square */
#define BASE      256       /* of rotations */
#define SIDE_MAX  (1 << 15) /* tokens, and of a prompt */

/* Where a block's vectors have what. */
enum { SCALE, GATE, MLP_SCALE, MLP_GATE, VECTORS };

typedef struct zimage {
    graft_build b;
    const graft_zimage_arch *a;
    graft_vid told;        /* the time, (N,told) */
    int64_t words;         /* tokens of the prompt */
    int32_t rows, columns; /* of the picture's tokens */
} zimage;

/* Tokens of a stream, in this order: the prompt's, the picture's, and those that fill it up. */
typedef struct sequence {
    graft_stream s; /* shifts: the gates' tanh stands there, since nothing is shifted */
    bool words, picture, told;
} sequence;

static int64_t cells(const zimage *m)
{
    return (int64_t)m->rows * m->columns;
}

/* Tokens that fill the picture up. */
static int64_t filling(const zimage *m)
{
    return graft_zimage_tokens(cells(m)) - cells(m);
}

/* ------------------------------------------------------------------ attention */

static graft_vid normed(const zimage *m, graft_name layer, graft_vid v, int32_t heads)
{
    return graft_build_rms_norm(&m->b, NAME("%s.weight", layer.text), v, heads, EPS);
}

static graft_vid rotated(const zimage *m, graft_vid v, graft_rope_grid grid)
{
    grid.heads = m->a->heads;
    grid.base = BASE;
    return graft_build_rope(&m->b, v, &grid);
}

/* Along the first axis words are a grid of one column, whose rows turn the values that in the
 * picture turn with the whole grid; column 0 turns nothing. */
static graft_vid turned(const zimage *m, const sequence *q, graft_vid v)
{
    const int32_t head = m->a->hidden / m->a->heads, of_place = head - 2 * m->a->rope_dim;
    const int64_t behind = q->picture ? cells(m) + filling(m) : 0;
    if (q->words)
        v = rotated(m, v,
                    (graft_rope_grid){.rows = (int32_t)m->words,
                                      .columns = 1,
                                      .behind = (int32_t)behind,
                                      .top = 1,
                                      .of_row = of_place,
                                      .of_column = head - of_place});
    if (q->picture)
        v = rotated(m, v,
                    (graft_rope_grid){.rows = m->rows,
                                      .columns = m->columns,
                                      .behind = (int32_t)filling(m),
                                      .frame = (int32_t)m->words + 1,
                                      .of_row = m->a->rope_dim,
                                      .of_column = m->a->rope_dim});
    return v;
}

static graft_vid attention(const zimage *m, const sequence *q, graft_vid v)
{
    const int32_t hidden = m->a->hidden, heads = m->a->heads;
    const graft_name name = NAME("%s.attention", q->s.name.text);
    graft_vid in[3];
    v = graft_build_linear(&m->b, NAME("%s.qkv", name.text), v, 3 * hidden, false);
    for (int i = 0; i < 3; i++) in[i] = graft_graph_slice(m->b.g, v, (int64_t)i * hidden, hidden);
    in[0] = turned(m, q, normed(m, NAME("%s.q_norm", name.text), in[0], heads));
    in[1] = turned(m, q, normed(m, NAME("%s.k_norm", name.text), in[1], heads));
    v = graft_build_attention(&m->b, in[0], in[1], in[2], heads, false);
    return graft_build_linear(&m->b, NAME("%s.out", name.text), v, hidden, false);
}

/* ------------------------------------------------------------------ blocks */

static graft_vid feed_forward(const zimage *m, const sequence *q, graft_vid v)
{
    const graft_name name = NAME("%s.feed_forward", q->s.name.text);
    graft_vid gate = graft_build_linear(&m->b, NAME("%s.w1", name.text), v, m->a->mlp, false);
    v = graft_build_linear(&m->b, NAME("%s.w3", name.text), v, m->a->mlp, false);
    v = graft_build_mul(&m->b, graft_build_act(&m->b, gate, GRAFT_ACT_SILU), v);
    return graft_build_linear(&m->b, NAME("%s.w2", name.text), v, m->a->hidden, false);
}

/* What a branch sees: the stream, normed, and where it is told the time, scaled. */
static graft_vid begun(const zimage *m, const sequence *q, const char *norm, int scale)
{
    const int64_t hidden = m->a->hidden;
    graft_vid v = normed(m, NAME("%s.%s", q->s.name.text, norm), q->s.h, 1);
    if (!q->told) return v;
    return graft_build_mul(&m->b, v,
                           graft_graph_slice(m->b.g, q->s.scales, scale * hidden, hidden));
}

static void joins(const zimage *m, sequence *q, const char *norm, int gate, graft_vid v)
{
    v = normed(m, NAME("%s.%s", q->s.name.text, norm), v, 1);
    q->s.h =
        q->told ? graft_stream_gated(&m->b, &q->s, gate, v) : graft_build_add(&m->b, v, q->s.h);
}

static void block(const zimage *m, const char *list, int i, sequence *q)
{
    q->s.name = NAME("%s.%d", list, i);
    if (q->told) {
        graft_stream_modulate(&m->b, &q->s, NAME("%s.adaLN_modulation.0", q->s.name.text), m->told,
                              VECTORS);
        q->s.shifts = graft_build_act(&m->b, q->s.shifts, GRAFT_ACT_TANH);
    }
    joins(m, q, "attention_norm2", GATE, attention(m, q, begun(m, q, "attention_norm1", SCALE)));
    joins(m, q, "ffn_norm2", MLP_GATE, feed_forward(m, q, begun(m, q, "ffn_norm1", MLP_SCALE)));
}

/* ------------------------------------------------------------------ in and out */

/* The network is told 1000 where nothing is noise. */
static graft_vid time_of(const zimage *m, graft_vid t)
{
    const graft_build *b = &m->b;
    t = graft_build_scale(&m->b, t, -1, 1000);
    t = graft_build_cast(b, graft_build_waves(b, t, m->a->time_dim), b->act_dtype);
    t = graft_build_linear(b, NAME("t_embedder.mlp.0"), t, m->a->time_mlp, true);
    t = graft_build_act(b, t, GRAFT_ACT_SILU);
    return graft_build_linear(b, NAME("t_embedder.mlp.2"), t, m->a->told, true);
}

/* (N,GRAFT_ZIMAGE_TOKENS,hidden), each token this weight, for which there is no operator: ones
 * times it. `like` has that shape. */
static graft_vid repeated(const zimage *m, const char *weight, graft_vid like)
{
    const int64_t dim[3] = {1, 1, m->a->hidden};
    const graft_vid token = graft_graph_weight(m->b.g, weight, 3, dim);
    return graft_build_mul(&m->b, graft_build_scale(&m->b, like, 0, 1), token);
}

/* The last tokens of h, of which y marks those that fill the prompt up. */
static graft_vid filled(const zimage *m, graft_vid h, graft_vid y)
{
    const int64_t rest = m->words - GRAFT_ZIMAGE_TOKENS;
    const int64_t dim[3] = {graft_build_dim(&m->b, h, 0), GRAFT_ZIMAGE_TOKENS, 1};
    graft_vid last = graft_stream_tokens(&m->b, h, rest, GRAFT_ZIMAGE_TOKENS);
    y = graft_graph_reshape(m->b.g, y, 3, dim);
    graft_vid pad = graft_build_mul(&m->b, repeated(m, "cap_pad_token", last), y);
    last = graft_build_add(&m->b, graft_build_mul(&m->b, last, graft_build_scale(&m->b, y, -1, 1)),
                           pad);
    return rest > 0 ? graft_build_join(&m->b, graft_stream_tokens(&m->b, h, 0, rest), last) : last;
}

static void prompt(const zimage *m, graft_vid context, graft_vid y, sequence *q)
{
    context = normed(m, NAME("cap_embedder.0"), context, 1);
    context = graft_build_cast(&m->b, context, m->b.act_dtype);
    context = graft_build_linear(&m->b, NAME("cap_embedder.1"), context, m->a->hidden, true);
    q->s.h = filled(m, context, y);
    for (int i = 0; i < m->a->context_depth; i++) block(m, "context_refiner", i, q);
}

/* `words` lends its shape to what fills the picture up. */
static void picture(const zimage *m, graft_vid x, graft_vid words, sequence *q)
{
    x = graft_stream_patches(&m->b, x, m->a->patch);
    q->s.h = graft_build_linear(&m->b, NAME("x_embedder"), x, m->a->hidden, true);
    if (filling(m)) {
        graft_vid pad = graft_stream_tokens(&m->b, words, 0, GRAFT_ZIMAGE_TOKENS);
        pad = graft_stream_tokens(&m->b, repeated(m, "x_pad_token", pad), 0, filling(m));
        q->s.h = graft_build_join(&m->b, q->s.h, pad);
    }
    for (int i = 0; i < m->a->noise_depth; i++) block(m, "noise_refiner", i, q);
}

/* Scaled by the time, but not shifted. */
static graft_vid final_layer(const zimage *m, graft_vid h)
{
    const graft_zimage_arch *a = m->a;
    graft_stream s = {.h = h};
    graft_stream_modulate(&m->b, &s, NAME("final_layer.adaLN_modulation.1"),
                          graft_build_act(&m->b, m->told, GRAFT_ACT_SILU), 1);
    graft_vid in[3] = {h, s.scales, graft_build_scale(&m->b, s.shifts, 0, 0)};
    if (in[0] < 0 || in[1] < 0 || in[2] < 0) return GRAFT_NO_VALUE;
    h = graft_graph_node(m->b.g, GRAFT_OP_LAYER_NORM, &(graft_attrs){.eps = GRAFT_STREAM_EPS}, in,
                         3, GRAFT_DTYPE_NONE);
    return graft_build_linear(&m->b, NAME("final_layer.linear"), h,
                              a->patch * a->patch * a->channels, true);
}

static void check_shape(graft_graph *g, const graft_zimage_arch *a, const graft_unet_shape *s)
{
    graft_transformer_check_patches(g, s, a->patch);
    graft_transformer_check_side(g, s, a->patch, SIDE_MAX);
    if (s->tokens < 1 || s->tokens % GRAFT_ZIMAGE_TOKENS || s->tokens > SIDE_MAX)
        graft_graph_fail(
            g, s->tokens > SIDE_MAX ? GRAFT_E_LIMIT : GRAFT_E_ARG,
            "a prompt of %lld tokens: this transformer takes multiples of %d, up to %d",
            (long long)s->tokens, GRAFT_ZIMAGE_TOKENS, SIDE_MAX);
    if (s->act_dtype != GRAFT_F32 && s->act_dtype != GRAFT_BF16)
        graft_graph_fail(g, GRAFT_E_UNSUPPORTED,
                         "Z-Image runs in float32 and bfloat16 only: its values exceed float16");
    graft_transformer_check_unchanged(g, s, s->control || s->perturbed);
}

graft_status graft_zimage_build(const graft_zimage_arch *a, const graft_unet_shape *shape,
                                graft_graph **out, graft_err *e)
{
    graft_graph *g = graft_graph_create();
    if (!g) return graft_fail_nomem(e, "transformer graph");
    const int64_t n = shape->batch, words = shape->tokens, h = shape->height, w = shape->width;
    zimage m = {.b = {g, shape->act_dtype}, .a = a, .words = words};
    check_shape(g, a, shape);
    m.rows = (int32_t)(h / a->patch);
    m.columns = (int32_t)(w / a->patch);
    graft_vid x = graft_graph_input(g, GRAFT_F32, 4, (int64_t[]){n, a->channels, h, w});
    graft_vid t = graft_graph_input(g, GRAFT_F32, 1, &n);
    graft_vid c = graft_graph_input(g, GRAFT_F32, 3, (int64_t[]){n, words, a->context_dim});
    graft_vid y = graft_graph_input(g, GRAFT_F32, 2, (int64_t[]){n, GRAFT_ZIMAGE_TOKENS});
    m.told = time_of(&m, t);
    sequence text = {.words = true}, image = {.picture = true, .told = true};
    sequence both = {.words = true, .picture = true, .told = true};
    prompt(&m, c, y, &text);
    picture(&m, x, text.s.h, &image);
    both.s.h = graft_build_join(&m.b, text.s.h, image.s.h);
    for (int i = 0; i < a->depth; i++) block(&m, "layers", i, &both);
    x = graft_stream_tokens(&m.b, both.s.h, words, cells(&m));
    x = graft_stream_unpatched(&m.b, final_layer(&m, x), m.rows, m.columns, a->patch);
    graft_graph_output(g, graft_build_scale(&m.b, x, -1, 0));
    graft_status st = graft_graph_status(g, e);
    if (!st) {
        *out = g;
        return GRAFT_OK;
    }
    graft_graph_destroy(g);
    return st;
}
