#include "engine/models/transformers/hidream.h"

#include "engine/models/parts/stream.h"
#include "engine/models/parts/transformer.h"

#define NAME(...) graft_name_make(__VA_ARGS__)
#define EPS       1e-5f     /* of the norms of queries and keys */
#define SIDE_MAX  (1 << 15) /* tokens, and of a prompt */

/* Where a stream's vectors have what; those of words stand behind the picture's. */
enum { SHIFT, SCALE, GATE, MLP_SHIFT, MLP_SCALE, MLP_GATE, VECTORS };

static const graft_build_gated_layers gated_layers = {"w1", "w3", "w2"};

typedef struct hidream {
    graft_build b;
    const graft_hidream_arch *a;
    graft_vid vec;         /* SiLU of what the network is told, (N,hidden) */
    graft_vid context;     /* (N,words,graft_hidream_context()) */
    int64_t words;         /* of one text encoder */
    int32_t rows, columns; /* of the picture's tokens */
} hidream;

/* ------------------------------------------------------------------ attention */

/* The picture's tokens are the first. */
static graft_vid turned(const hidream *m, graft_vid v)
{
    const int64_t behind = graft_build_dim(&m->b, v, 1) - (int64_t)m->rows * m->columns;
    const graft_rope_grid grid = {.heads = m->a->heads,
                                  .rows = m->rows,
                                  .columns = m->columns,
                                  .behind = (int32_t)behind,
                                  .of_row = m->a->rope_dim,
                                  .of_column = m->a->rope_dim};
    return graft_build_rope(&m->b, v, &grid);
}

/* Queries, keys and values of a stream; `kind` ends the names of its layers. */
static void projected(const hidream *m, const graft_stream *s, const char *kind, graft_vid qkv[3])
{
    const graft_vid v = graft_stream_normed(&m->b, s, SHIFT);
    for (int i = 0; i < 3; i++)
        qkv[i] = graft_build_linear(&m->b, NAME("%s.attn1.to_%c%s", s->name.text, "qkv"[i], kind),
                                    v, m->a->hidden, true);
    for (int i = 0; i < 2; i++)
        qkv[i] = graft_build_rms_norm(
            &m->b, NAME("%s.attn1.%c_rms_norm%s.weight", s->name.text, "qk"[i], kind), qkv[i], 1,
            EPS);
}

static graft_vid attended(const hidream *m, const graft_vid qkv[3])
{
    return graft_build_attention(&m->b, turned(m, qkv[0]), turned(m, qkv[1]), qkv[2], m->a->heads,
                                 false);
}

/* ------------------------------------------------------------------ experts */

/* Of each token the weights of the experts, (N,T,experts) float32: zeros for those that are not
 * chosen. */
static graft_vid weights_of(const hidream *m, graft_name name, graft_vid v)
{
    const graft_attrs chosen = {.groups = m->a->chosen};
    v = graft_build_linear(&m->b, NAME("%s.gate", name.text), v, m->a->experts, false);
    v = graft_build_cast(&m->b, v, GRAFT_F32);
    return v < 0 ? v : graft_graph_node(m->b.g, GRAFT_OP_ROUTE, &chosen, &v, 1, GRAFT_DTYPE_NONE);
}

/* Every token goes through all of them, and what they make of it counts by its weights. */
static graft_vid experts(const hidream *m, graft_name name, graft_vid v)
{
    const graft_build *b = &m->b;
    const graft_vid weights = weights_of(m, name, v);
    graft_vid sum = graft_build_gated(b, NAME("%s.shared_experts", name.text), &gated_layers, v,
                                      m->a->shared_mlp, GRAFT_ACT_SILU);
    for (int i = 0; i < m->a->experts; i++) {
        const graft_name one = NAME("%s.experts.%d", name.text, i);
        graft_vid gate = graft_build_linear(b, NAME("%s.w1", one.text), v, m->a->mlp, false);
        graft_vid h = graft_build_linear(b, NAME("%s.w3", one.text), v, m->a->mlp, false);
        h = graft_build_mul(b, graft_build_act(b, gate, GRAFT_ACT_SILU), h);
        h = graft_build_mul(b, h, graft_graph_slice(b->g, weights, i, 1));
        h = graft_build_linear(b, NAME("%s.w2", one.text), h, m->a->hidden, false);
        sum = graft_build_add(b, h, sum);
    }
    return sum;
}

/* ------------------------------------------------------------------ blocks */

/* The rest of a block, behind its attention. */
static void finish_block(const hidream *m, graft_stream *s, const char *kind, graft_vid v)
{
    const graft_build *b = &m->b;
    const bool words = kind[0] != '\0';
    const graft_name layers = NAME("%s.ff_%c", s->name.text, words ? 't' : 'i');
    v = graft_build_linear(b, NAME("%s.attn1.to_out%s", s->name.text, kind), v, m->a->hidden, true);
    s->h = graft_stream_gated(b, s, GATE, v);
    v = graft_stream_normed(b, s, MLP_SHIFT);
    v = words ? graft_build_gated(b, layers, &gated_layers, v, m->a->text_mlp, GRAFT_ACT_SILU)
              : experts(m, layers, v);
    s->h = graft_stream_gated(b, s, MLP_GATE, v);
}

/* What the network reads of layer `from` of the prompt's numbers, `width` of each token, by
 * projection i. */
static graft_vid caption(const hidream *m, int i, int64_t from, int32_t width)
{
    graft_vid v = graft_graph_slice(m->b.g, m->context, from, width);
    v = graft_build_dense(&m->b, v, m->b.act_dtype);
    return graft_build_linear(&m->b, NAME("caption_projection.%d.linear", i), v, m->a->hidden,
                              false);
}

/* What block i, those of one stream counted behind those of two, reads of Llama. */
static graft_vid of_llama(const hidream *m, int i)
{
    const int32_t layer = i < m->a->llama_layers ? i : m->a->llama_layers - 1;
    return caption(m, i, m->a->t5_dim + (int64_t)layer * m->a->llama_dim, m->a->llama_dim);
}

/* The first so many tokens of a stream remain, the others are forgotten. */
static void keep(const hidream *m, graft_stream *s, int64_t tokens)
{
    s->h = graft_stream_tokens(&m->b, s->h, 0, tokens);
}

static void block_of_two(const hidream *m, int i, graft_stream *text, graft_stream *picture)
{
    const graft_build *b = &m->b;
    const int64_t words = graft_build_dim(b, text->h, 1), cells = graft_build_dim(b, picture->h, 1);
    const int32_t width = m->a->hidden;
    graft_vid qkv[3], of[2][3];
    picture->name = text->name = NAME("double_stream_blocks.%d.block", i);
    graft_vid all = graft_build_linear(b, NAME("%s.adaLN_modulation.1", text->name.text), m->vec,
                                       2 * VECTORS * width, true);
    all = graft_build_cast(b, all, GRAFT_F32);
    graft_stream_modulate_given(b, picture, all, 0, VECTORS);
    graft_stream_modulate_given(b, text, all, VECTORS, VECTORS);
    text->h = graft_build_join(b, text->h, of_llama(m, i));
    projected(m, picture, "", of[0]);
    projected(m, text, "_t", of[1]);
    for (int k = 0; k < 3; k++) qkv[k] = graft_build_join(b, of[0][k], of[1][k]);
    const graft_vid v = attended(m, qkv);
    keep(m, text, words);
    finish_block(m, picture, "", graft_stream_tokens(b, v, 0, cells));
    finish_block(m, text, "_t", graft_stream_tokens(b, v, cells, words));
}

static void block_of_one(const hidream *m, int i, graft_stream *both)
{
    const int64_t tokens = graft_build_dim(&m->b, both->h, 1);
    graft_vid qkv[3];
    both->name = NAME("single_stream_blocks.%d.block", i);
    graft_stream_modulate(&m->b, both, NAME("%s.adaLN_modulation.1", both->name.text), m->vec,
                          VECTORS);
    both->h = graft_build_join(&m->b, both->h, of_llama(m, m->a->depth + i));
    projected(m, both, "", qkv);
    const graft_vid v = attended(m, qkv);
    keep(m, both, tokens);
    finish_block(m, both, "", graft_stream_tokens(&m->b, v, 0, tokens));
}

/* ------------------------------------------------------------------ in and out */

/* Two layers below `name`, with a SiLU between them. */
static graft_vid embedded(const hidream *m, const char *name, graft_vid v)
{
    v = graft_build_linear(&m->b, NAME("%s.linear_1", name), v, m->a->hidden, true);
    v = graft_build_act(&m->b, v, GRAFT_ACT_SILU);
    return graft_build_linear(&m->b, NAME("%s.linear_2", name), v, m->a->hidden, true);
}

static void condition(hidream *m, graft_vid t, graft_vid y)
{
    const graft_build *b = &m->b;
    t = graft_build_cast(b, graft_build_waves(b, t, m->a->time_dim), b->act_dtype);
    t = embedded(m, "t_embedder.timestep_embedder", t);
    y = embedded(m, "p_embedder.pooled_embedder", graft_build_cast(b, y, b->act_dtype));
    m->vec = graft_build_act(b, graft_build_add(b, t, y), GRAFT_ACT_SILU);
}

static graft_vid final_layer(const hidream *m, graft_vid h)
{
    const int32_t patch = m->a->patch;
    graft_stream s = {.h = h};
    graft_stream_modulate(&m->b, &s, NAME("final_layer.adaLN_modulation.1"), m->vec, SCALE + 1);
    h = graft_build_linear(&m->b, NAME("final_layer.linear"), graft_stream_normed(&m->b, &s, SHIFT),
                           patch * patch * m->a->channels, true);
    h = graft_stream_unpatched(&m->b, h, m->rows, m->columns, patch);
    return graft_build_scale(&m->b, h, -1, 0);
}

static void check_shape(graft_graph *g, const graft_hidream_arch *a, const graft_net_shape *s)
{
    graft_transformer_check_patches(g, s, a->patch);
    graft_transformer_check_side(g, s, a->patch, SIDE_MAX);
    graft_transformer_check_tokens(g, s, 1, SIDE_MAX);
    graft_transformer_check_wide(g, s, "HiDream");
    graft_transformer_check_unchanged(g, s, s->control || s->perturbed);
}

graft_status graft_hidream_build(const graft_hidream_arch *a, const graft_net_shape *shape,
                                 graft_graph **out, graft_err *e)
{
    graft_graph *g = graft_graph_create();
    if (!g) return graft_fail_nomem(e, "transformer graph");
    const int64_t n = shape->batch, h = shape->height, w = shape->width;
    hidream m = {.b = {g, shape->act_dtype}, .a = a, .words = shape->tokens};
    check_shape(g, a, shape);
    m.rows = (int32_t)(h / a->patch);
    m.columns = (int32_t)(w / a->patch);
    graft_vid x = graft_graph_input(g, GRAFT_F32, 4, (int64_t[]){n, a->channels, h, w});
    const graft_vid t = graft_graph_input(g, GRAFT_F32, 1, &n);
    m.context =
        graft_graph_input(g, GRAFT_F32, 3, (int64_t[]){n, m.words, graft_hidream_context(a)});
    condition(&m, t, graft_graph_input(g, GRAFT_F32, 2, (int64_t[]){n, a->pooled_dim}));
    x = graft_stream_patches(&m.b, x, a->patch);
    const int32_t blocks = a->depth + a->single_depth;
    graft_stream picture = {
        .h = graft_build_linear(&m.b, NAME("x_embedder.proj"), x, a->hidden, true)};
    graft_stream text = {
        .h = graft_build_join(&m.b, caption(&m, blocks, 0, a->t5_dim), of_llama(&m, blocks - 1))};
    for (int i = 0; i < a->depth; i++) block_of_two(&m, i, &text, &picture);
    picture.h = graft_build_join(&m.b, picture.h, text.h);
    for (int i = 0; i < a->single_depth; i++) block_of_one(&m, i, &picture);
    x = graft_stream_tokens(&m.b, picture.h, 0, (int64_t)m.rows * m.columns);
    graft_graph_output(g, final_layer(&m, x));
    graft_status st = graft_graph_status(g, e);
    if (!st) {
        *out = g;
        return GRAFT_OK;
    }
    graft_graph_destroy(g);
    return st;
}
