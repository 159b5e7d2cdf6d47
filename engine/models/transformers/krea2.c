#include "engine/models/transformers/krea2.h"

#include "engine/models/parts/stream.h"
#include "engine/models/parts/transformer.h"

#define NAME(...) graft_name_make(__VA_ARGS__)
#define EPS       1e-5f     /* of all norms */
#define BASE      1000      /* of rotations */
#define SIDE_MAX  (1 << 15) /* tokens, and of a prompt */

/* Where a block's vectors have what. */
enum { SCALE, SHIFT, GATE, MLP_SCALE, MLP_SHIFT, MLP_GATE, VECTORS };

typedef struct krea2 {
    graft_build b;
    const graft_krea2_arch *a;
    graft_vid told;        /* the time, (N,hidden) */
    graft_vid vec;         /* what all blocks are told of it, (N,VECTORS*hidden) float32 */
    graft_vid count;       /* how many tokens count: the picture's, then those of the prompt (N) */
    graft_vid words_count; /* of the prompt's alone */
    int64_t words;         /* its tokens, which are the last */
    int32_t rows, columns; /* of the picture's */
} krea2;

/* What a block is made of, of the prompt's or of both. */
typedef struct block {
    graft_name name;
    int32_t heads, key_heads, mlp;
    graft_vid count; /* GRAFT_NO_VALUE: all tokens count */
    bool placed;     /* the picture's tokens are there, and have their places */
} block;

static int64_t cells(const krea2 *m)
{
    return (int64_t)m->rows * m->columns;
}

static graft_vid linear(const krea2 *m, graft_name layer, graft_vid v, int32_t width)
{
    return graft_build_linear(&m->b, layer, v, width, false);
}

/* Of each of the heads, by a weight that is stored less one. */
static graft_vid normed(const krea2 *m, graft_name scale, graft_vid v, int32_t heads)
{
    return graft_build_rms_norm_more(&m->b, scale, v, heads, EPS);
}

/* ------------------------------------------------------------------ attention */

/* The prompt's tokens stand where nothing turns. */
static graft_vid turned(const krea2 *m, const block *k, graft_vid v, int32_t heads)
{
    if (!k->placed) return v;
    const graft_rope_grid grid = {.heads = heads,
                                  .rows = m->rows,
                                  .columns = m->columns,
                                  .behind = (int32_t)m->words,
                                  .of_row = m->a->rope_dim,
                                  .of_column = m->a->rope_dim,
                                  .base = BASE};
    return graft_build_rope(&m->b, v, &grid);
}

/* In float32: of a gate that is almost closed bfloat16's tanh would leave nothing. */
static graft_vid sigmoid(const krea2 *m, graft_vid v)
{
    v = graft_build_scale(&m->b, graft_build_cast(&m->b, v, GRAFT_F32), 0.5f, 0);
    return graft_build_scale(&m->b, graft_build_act(&m->b, v, GRAFT_ACT_TANH), 0.5f, 0.5f);
}

static graft_vid attention(const krea2 *m, const block *k, graft_vid v)
{
    static const char *const names[3] = {"wq", "wk", "wv"};
    const graft_name name = NAME("%s.attn", k->name.text);
    const int32_t width = (int32_t)graft_build_dim(&m->b, v, 2), head = width / k->heads;
    graft_vid in[3];
    for (int i = 0; i < 3; i++)
        in[i] =
            linear(m, NAME("%s.%s", name.text, names[i]), v, (i ? k->key_heads : k->heads) * head);
    in[0] = normed(m, NAME("%s.qknorm.qnorm.scale", name.text), in[0], k->heads);
    in[1] = normed(m, NAME("%s.qknorm.knorm.scale", name.text), in[1], k->key_heads);
    in[0] = turned(m, k, in[0], k->heads);
    in[1] = turned(m, k, in[1], k->key_heads);
    for (int i = 1; i < 3; i++)
        in[i] = graft_stream_heads_shared(&m->b, in[i], k->heads, k->key_heads);
    const graft_vid gate = sigmoid(m, linear(m, NAME("%s.gate", name.text), v, width));
    v = k->count < 0 ? graft_build_attention(&m->b, in[0], in[1], in[2], k->heads, false)
                     : graft_build_attention_counted(&m->b, in, k->count, k->heads);
    return linear(m, NAME("%s.wo", name.text), graft_build_mul(&m->b, v, gate), width);
}

/* ------------------------------------------------------------------ blocks */

static graft_vid feed_forward(const krea2 *m, const block *k, graft_vid v)
{
    static const graft_build_gated_layers layers = {"gate", "up", "down"};
    return graft_build_gated(&m->b, NAME("%s.mlp", k->name.text), &layers, v, k->mlp,
                             GRAFT_ACT_SILU);
}

/* A block of the prompt alone, which is told no time. */
static graft_vid text_block(const krea2 *m, const char *list, int i, graft_vid count, graft_vid v)
{
    const block k = {.name = NAME("txtfusion.%s.%d", list, i),
                     .heads = m->a->text_heads,
                     .key_heads = m->a->text_key_heads,
                     .mlp = m->a->text_mlp,
                     .count = count};
    graft_vid seen = normed(m, NAME("%s.prenorm.scale", k.name.text), v, 1);
    v = graft_build_add(&m->b, attention(m, &k, seen), v);
    seen = normed(m, NAME("%s.postnorm.scale", k.name.text), v, 1);
    return graft_build_add(&m->b, feed_forward(m, &k, seen), v);
}

/* Sets the stream's vectors: those of `all` (N,vectors*hidden) float32, and with each its own. */
static void tell(const krea2 *m, graft_stream *s, graft_vid all, const char *own, int vectors)
{
    const int64_t dim[2] = {1, (int64_t)vectors * m->a->hidden};
    all = graft_build_add(&m->b, all, graft_graph_weight(m->b.g, own, 2, dim));
    graft_stream_modulate_given(&m->b, s, all, 0, vectors);
}

/* The stream, normed, times one more than vector `scale`, plus the one behind it. */
static graft_vid told(const krea2 *m, const graft_stream *s, graft_name norm, int scale)
{
    const int64_t hidden = m->a->hidden;
    graft_vid v = normed(m, norm, s->h, 1);
    v = graft_build_mul(&m->b, v, graft_graph_slice(m->b.g, s->scales, scale * hidden, hidden));
    const graft_vid shift = graft_graph_slice(m->b.g, s->shifts, (scale + 1) * hidden, hidden);
    return graft_build_add(&m->b, v, graft_build_cast(&m->b, shift, m->b.act_dtype));
}

static void both_block(const krea2 *m, int i, graft_stream *s)
{
    const block k = {.name = NAME("blocks.%d", i),
                     .heads = m->a->heads,
                     .key_heads = m->a->key_heads,
                     .mlp = m->a->mlp,
                     .count = m->count,
                     .placed = true};
    tell(m, s, m->vec, NAME("%s.mod.lin", k.name.text).text, VECTORS);
    graft_vid v = told(m, s, NAME("%s.prenorm.scale", k.name.text), SCALE);
    s->h = graft_stream_gated(&m->b, s, GATE, attention(m, &k, v));
    v = told(m, s, NAME("%s.postnorm.scale", k.name.text), MLP_SCALE);
    s->h = graft_stream_gated(&m->b, s, MLP_GATE, feed_forward(m, &k, v));
}

/* ------------------------------------------------------------------ in and out */

/* Two layers with a GELU between them. */
static graft_vid two_layers(const krea2 *m, const char *first, const char *second, graft_vid v)
{
    v = graft_build_linear(&m->b, NAME("%s", first), v, m->a->hidden, true);
    v = graft_build_act(&m->b, v, GRAFT_ACT_GELU_TANH);
    return graft_build_linear(&m->b, NAME("%s", second), v, m->a->hidden, true);
}

/* m->told and m->vec. */
static void condition(krea2 *m, graft_vid t)
{
    const graft_build *b = &m->b;
    t = graft_build_cast(b, graft_build_waves(b, t, m->a->time_dim), b->act_dtype);
    m->told = two_layers(m, "tmlp.0", "tmlp.2", t);
    t = graft_build_act(b, m->told, GRAFT_ACT_GELU_TANH);
    t = graft_build_linear(b, NAME("tproj.1"), t, VECTORS * m->a->hidden, true);
    m->vec = graft_build_cast(b, t, GRAFT_F32);
}

/* (N,words,text_layers*text_width) as (N,words,hidden). The layers of each token are a sequence of
 * their own, of which a weighted sum remains. */
static graft_vid prompt(const krea2 *m, graft_vid v)
{
    const int64_t n = graft_build_dim(&m->b, v, 0), width = m->a->text_width;
    const int64_t all = n * m->words, layers = m->a->text_layers;
    v = graft_build_cast(&m->b, v, m->b.act_dtype);
    v = graft_graph_reshape(m->b.g, v, 3, (int64_t[]){all, layers, width});
    for (int i = 0; i < m->a->layer_depth; i++)
        v = text_block(m, "layerwise_blocks", i, GRAFT_NO_VALUE, v);
    v = graft_graph_reshape(m->b.g, v, 4, (int64_t[]){1, all, layers, width});
    v = graft_build_permuted(&m->b, v, (const int32_t[4]){0, 1, 3, 2}, GRAFT_DTYPE_NONE);
    v = linear(m, NAME("txtfusion.projector"), v, 1);
    v = graft_graph_reshape(m->b.g, v, 3, (int64_t[]){n, m->words, width});
    for (int i = 0; i < m->a->token_depth; i++)
        v = text_block(m, "refiner_blocks", i, m->words_count, v);
    return two_layers(m, "txtmlp.1", "txtmlp.3", normed(m, NAME("txtmlp.0.scale"), v, 1));
}

/* It is told the time itself, by the same numbers for its scale and its shift. */
static graft_vid final_layer(const krea2 *m, graft_vid h)
{
    graft_stream s = {.h = h};
    const graft_vid time = graft_build_cast(&m->b, m->told, GRAFT_F32);
    tell(m, &s, graft_build_concat(&m->b, time, time), "last.modulation.lin", 2);
    return graft_build_linear(&m->b, NAME("last.linear"), told(m, &s, NAME("last.norm.scale"), 0),
                              m->a->patch * m->a->patch * m->a->channels, true);
}

static void check_shape(graft_graph *g, const graft_krea2_arch *a, const graft_net_shape *s)
{
    graft_transformer_check_patches(g, s, a->patch);
    graft_transformer_check_side(g, s, a->patch, SIDE_MAX);
    graft_transformer_check_tokens(g, s, 1, SIDE_MAX);
    graft_transformer_check_wide(g, s, "Krea 2");
    graft_transformer_check_unchanged(g, s, s->control || s->perturbed);
}

graft_status graft_krea2_build(const graft_krea2_arch *a, const graft_net_shape *shape,
                               graft_graph **out, graft_err *e)
{
    graft_graph *g = graft_graph_create();
    if (!g) return graft_fail_nomem(e, "transformer graph");
    const int64_t n = shape->batch, h = shape->height, w = shape->width;
    krea2 m = {.b = {g, shape->act_dtype}, .a = a, .words = shape->tokens};
    check_shape(g, a, shape);
    m.rows = (int32_t)(h / a->patch);
    m.columns = (int32_t)(w / a->patch);
    graft_vid x = graft_graph_input(g, GRAFT_F32, 4, (int64_t[]){n, a->channels, h, w});
    graft_vid t = graft_graph_input(g, GRAFT_F32, 1, &n);
    graft_vid c =
        graft_graph_input(g, GRAFT_F32, 3, (int64_t[]){n, m.words, graft_krea2_context(a)});
    graft_vid y = graft_graph_input(g, GRAFT_F32, 2, (int64_t[]){n, 1});
    m.words_count = graft_stream_count(&m.b, y, 0);
    m.count = graft_stream_count(&m.b, y, cells(&m));
    condition(&m, t);
    x = graft_stream_plane_patches(&m.b, x, a->patch);
    x = graft_build_linear(&m.b, NAME("first"), x, a->hidden, true);
    graft_stream both = {.h = graft_build_join(&m.b, x, prompt(&m, c))};
    for (int i = 0; i < a->depth; i++) both_block(&m, i, &both);
    x = final_layer(&m, graft_stream_tokens(&m.b, both.h, 0, cells(&m)));
    graft_graph_output(g, graft_stream_plane_unpatched(&m.b, x, m.rows, m.columns, a->patch));
    graft_status st = graft_graph_status(g, e);
    if (!st) {
        *out = g;
        return GRAFT_OK;
    }
    graft_graph_destroy(g);
    return st;
}
