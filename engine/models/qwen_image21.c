#include "engine/models/qwen_image21.h"

#include "engine/models/stream.h"
#include "engine/models/transformer.h"

#define NAME(...) graft_name_make(__VA_ARGS__)
#define SIDE_MAX  (1 << 15) /* tokens, and of a prompt */

/* What blocks are told of a time, in this order. */
enum { SCALE, GATE, MLP_SCALE, MLP_GATE, VECTORS };

/* Tokens, and what they are told: vectors (N,1,hidden) float32, scales as one more than they are,
 * gates as they act. */
typedef struct tokens {
    graft_vid h; /* (N,T,hidden) */
    graft_vid vector[VECTORS];
} tokens;

typedef struct qwen_image21 {
    graft_build b;
    const graft_qwen_image21_arch *a;
    graft_vid zeros;        /* (N,1,hidden): a norm's shift */
    graft_vid words_count;  /* of the prompt's tokens that count, (N) float32 */
    graft_vid count;        /* of all tokens: the picture's, then those of the prompt (N) */
    int64_t words;          /* the prompt's tokens, those that fill it up among them */
    int32_t rows, columns;  /* of the picture's */
    graft_vid turn, unturn; /* by how far the picture is behind the prompt's beginning: cosines and
                               sines (1,N,1,first/2) */
} qwen_image21;

static int64_t cells(const qwen_image21 *m)
{
    return (int64_t)m->rows * m->columns;
}

/* A head's values that turn along the first axis. */
static int32_t first_axis(const qwen_image21 *m)
{
    return m->a->hidden / m->a->heads - 2 * m->a->rope_dim;
}

static graft_vid linear(const qwen_image21 *m, graft_name layer, graft_vid v, int32_t width)
{
    return graft_build_linear(&m->b, layer, v, width, false);
}

/* Normed, and times one more than a vector. */
static graft_vid normed(const qwen_image21 *m, const tokens *t, int scale)
{
    const graft_vid in[3] = {t->h, t->vector[scale], m->zeros};
    if (in[0] < 0 || in[1] < 0 || in[2] < 0) return GRAFT_NO_VALUE;
    return graft_graph_node(m->b.g, GRAFT_OP_LAYER_NORM, &(graft_attrs){.eps = GRAFT_STREAM_EPS},
                            in, 3, GRAFT_DTYPE_NONE);
}

static graft_vid gated(const qwen_image21 *m, const tokens *t, int gate, graft_vid v)
{
    const graft_vid in[3] = {v, t->vector[gate], t->h};
    if (in[0] < 0 || in[1] < 0 || in[2] < 0) return GRAFT_NO_VALUE;
    return graft_graph_node(m->b.g, GRAFT_OP_MUL, NULL, in, 3, GRAFT_DTYPE_NONE);
}

/* ------------------------------------------------------------------ places */

static graft_vid rotated(const qwen_image21 *m, graft_vid v, graft_rope_grid grid)
{
    grid.heads = m->a->heads;
    return graft_build_rope(&m->b, v, &grid);
}

/* Only differences of places count, so rows and columns of both are moved until none is below 0. */
static graft_unet_grid before_middle(const qwen_image21 *m)
{
    return (graft_unet_grid){m->rows - m->rows / 2, m->columns - m->columns / 2};
}

/* On the first axis all of it stands at 0. */
static graft_vid turned_picture(const qwen_image21 *m, graft_vid v)
{
    return rotated(m, v,
                   (graft_rope_grid){.rows = m->rows,
                                     .columns = m->columns,
                                     .of_row = m->a->rope_dim,
                                     .of_column = m->a->rope_dim});
}

/* One axis after the other: words are a grid of one column, whose rows turn the axis' values. */
static graft_vid turned_words(const qwen_image21 *m, graft_vid v)
{
    const graft_unet_grid moved = before_middle(m);
    const struct {
        int32_t values, from;
    } axis[] = {{first_axis(m), 0}, {m->a->rope_dim, moved.rows}, {m->a->rope_dim, moved.columns}};
    int32_t behind = m->a->hidden / m->a->heads;
    for (int i = 0; i < 3; i++) {
        behind -= axis[i].values;
        v = rotated(m, v,
                    (graft_rope_grid){.rows = (int32_t)m->words,
                                      .columns = 1,
                                      .top = axis[i].from,
                                      .of_row = axis[i].values,
                                      .last = behind});
    }
    return v;
}

/* The prompt's keys as the picture sees them: it stands behind the last word that counts, and what
 * is at 0 for it is so many places further on. Each pair (a,b) of the first axis turns back by
 * that, in float32. */
static graft_vid seen_from_picture(const qwen_image21 *m, graft_vid v)
{
    const graft_build *b = &m->b;
    const int64_t n = graft_build_dim(b, v, 0), width = graft_build_dim(b, v, 2);
    const int64_t heads = m->words * m->a->heads, head = width / m->a->heads;
    const int64_t first = first_axis(m), half = first / 2, all = n * heads * half;
    const int64_t part[4] = {1, n, heads, half};
    v = graft_graph_reshape(b->g, v, 3, (int64_t[]){n, heads, head});
    const graft_vid rest = graft_graph_slice(b->g, v, first, head - first);
    graft_vid x = graft_build_dense(b, graft_graph_slice(b->g, v, 0, first), GRAFT_F32);
    x = graft_graph_reshape(b->g, x, 4, (int64_t[]){n, heads, half, 2});
    x = graft_build_permuted(b, x, (const int32_t[4]){3, 0, 1, 2}, GRAFT_DTYPE_NONE);
    graft_vid p = graft_graph_reshape(b->g, graft_graph_slice_rows(b->g, x, 0, 1), 4, part);
    graft_vid q = graft_graph_reshape(b->g, graft_graph_slice_rows(b->g, x, 1, 1), 4, part);
    const graft_vid back = graft_build_scale(b, m->unturn, -1, 0);
    const graft_vid re =
        graft_build_add(b, graft_build_mul(b, p, m->turn), graft_build_mul(b, q, m->unturn));
    const graft_vid im =
        graft_build_add(b, graft_build_mul(b, q, m->turn), graft_build_mul(b, p, back));
    p = graft_graph_reshape(b->g, re, 3, (int64_t[]){1, 1, all});
    q = graft_graph_reshape(b->g, im, 3, (int64_t[]){1, 1, all});
    x = graft_graph_reshape(b->g, graft_build_join(b, p, q), 4, (int64_t[]){2, n, heads, half});
    x = graft_build_permuted(b, x, (const int32_t[4]){1, 2, 3, 0}, GRAFT_DTYPE_NONE);
    x = graft_graph_reshape(b->g, x, 3, (int64_t[]){n, heads, first});
    v = graft_build_concat(b, graft_build_cast(b, x, b->act_dtype), rest);
    return graft_graph_reshape(b->g, v, 3, (int64_t[]){n, m->words, width});
}

/* ------------------------------------------------------------------ blocks */

/* Queries, keys and values, the former two normed. */
static void projected(const qwen_image21 *m, graft_name block, graft_vid v, graft_vid qkv[3])
{
    static const char *const names[3] = {"to_q", "to_k", "to_v"};
    for (int i = 0; i < 3; i++)
        qkv[i] = linear(m, NAME("%s.attn.%s", block.text, names[i]), v, m->a->hidden);
    for (int i = 0; i < 2; i++)
        qkv[i] = graft_stream_head_normed(
            &m->b, NAME("%s.attn.norm_%c.weight", block.text, i ? 'k' : 'q'), qkv[i], m->a->heads);
}

/* What attention gave goes into the tokens, and then what a gated layer makes of them. */
static void join(const qwen_image21 *m, graft_name block, tokens *t, graft_vid v)
{
    const int64_t mlp = m->a->mlp;
    v = linear(m, NAME("%s.attn.to_out.0", block.text), v, m->a->hidden);
    t->h = gated(m, t, GATE, v);
    v = normed(m, t, MLP_SCALE);
    v = linear(m, NAME("%s.img_mlp.gate_up", block.text), v, 2 * m->a->mlp);
    const graft_vid up = graft_graph_slice(m->b.g, v, mlp, mlp);
    v = graft_build_act(&m->b, graft_graph_slice(m->b.g, v, 0, mlp), GRAFT_ACT_SILU);
    v = linear(m, NAME("%s.img_mlp.out", block.text), graft_build_mul(&m->b, v, up), m->a->hidden);
    t->h = gated(m, t, MLP_GATE, v);
}

/* Behind the last one nobody reads the prompt. */
static void block(const qwen_image21 *m, int i, tokens *words, tokens *picture)
{
    const graft_name name = NAME("transformer_blocks.%d", i);
    graft_vid w[3], p[3];
    projected(m, name, normed(m, words, SCALE), w);
    projected(m, name, normed(m, picture, SCALE), p);
    for (int k = 0; k < 2; k++) {
        w[k] = turned_words(m, w[k]);
        p[k] = turned_picture(m, p[k]);
    }
    const graft_vid in[3] = {p[0], graft_build_join(&m->b, p[1], seen_from_picture(m, w[1])),
                             graft_build_join(&m->b, p[2], w[2])};
    if (i + 1 < m->a->depth)
        join(m, name, words, graft_build_attention(&m->b, w[0], w[1], w[2], m->a->heads, true));
    join(m, name, picture, graft_build_attention_counted(&m->b, in, m->count, m->a->heads));
}

/* ------------------------------------------------------------------ in and out */

/* SiLU of what a time (N) becomes, (N,hidden). */
static graft_vid conditioned(const qwen_image21 *m, graft_vid t)
{
    static const char name[] = "time_text_embed.timestep_embedder";
    const graft_build *b = &m->b;
    t = graft_build_cast(b, graft_build_waves(b, t, m->a->time_dim), b->act_dtype);
    t = linear(m, NAME("%s.linear_1", name), t, m->a->hidden);
    t = linear(m, NAME("%s.linear_2", name), graft_build_act(b, t, GRAFT_ACT_SILU), m->a->hidden);
    return graft_build_act(b, t, GRAFT_ACT_SILU);
}

static void tell(const qwen_image21 *m, tokens *t, graft_vid vec)
{
    const graft_build *b = &m->b;
    const int64_t n = graft_build_dim(b, vec, 0), hidden = m->a->hidden;
    graft_vid all = linear(m, NAME("modulation.1"), vec, VECTORS * m->a->hidden);
    all = graft_build_cast(b, all, GRAFT_F32);
    for (int i = 0; i < VECTORS; i++) {
        graft_vid v = graft_graph_slice(b->g, all, i * hidden, hidden);
        v = graft_graph_reshape(b->g, graft_build_dense(b, v, GRAFT_DTYPE_NONE), 3,
                                (int64_t[]){n, 1, hidden});
        t->vector[i] = i == GATE || i == MLP_GATE ? graft_build_act(b, v, GRAFT_ACT_TANH)
                                                  : graft_build_scale(b, v, 1, 1);
    }
}

static graft_vid prompt(const qwen_image21 *m, graft_vid v)
{
    const graft_build *b = &m->b;
    const int64_t width = m->a->context_dim;
    const graft_vid in[2] = {v,
                             graft_graph_weight_more(b->g, GRAFT_QWEN_IMAGE21_TENSOR, 1, &width)};
    if (in[0] < 0 || in[1] < 0) return GRAFT_NO_VALUE;
    v = graft_graph_node(b->g, GRAFT_OP_RMS_NORM,
                         &(graft_attrs){.eps = GRAFT_STREAM_EPS, .heads = 1}, in, 2,
                         GRAFT_DTYPE_NONE);
    v = linear(m, NAME("txt_in.in_layer"), graft_build_cast(b, v, b->act_dtype), m->a->hidden);
    v = graft_build_act(b, v, GRAFT_ACT_GELU_TANH);
    return linear(m, NAME("txt_in.out_layer"), v, m->a->hidden);
}

/* How many tokens count, and the angles that this makes. */
static void count_words(qwen_image21 *m, graft_vid y)
{
    const graft_build *b = &m->b;
    const int64_t n = graft_build_dim(b, y, 0), half = first_axis(m) / 2;
    y = graft_build_dense(b, y, GRAFT_DTYPE_NONE);
    m->words_count = graft_graph_reshape(b->g, y, 1, &n);
    m->count = graft_stream_count(b, y, cells(m));
    const graft_vid waves = graft_build_waves(b, m->words_count, first_axis(m));
    for (int i = 0; i < 2; i++) {
        graft_vid v = graft_graph_slice(b->g, waves, i * half, half);
        v = graft_graph_reshape(b->g, graft_build_dense(b, v, GRAFT_DTYPE_NONE), 4,
                                (int64_t[]){1, n, 1, half});
        *(i ? &m->unturn : &m->turn) = v;
    }
}

static graft_vid final_layer(const qwen_image21 *m, const tokens *picture, graft_vid vec)
{
    const graft_build *b = &m->b;
    const int64_t n = graft_build_dim(b, vec, 0), hidden = m->a->hidden;
    tokens t = {.h = picture->h};
    graft_vid v = linear(m, NAME("norm_out.linear"), vec, m->a->hidden);
    v = graft_graph_reshape(b->g, graft_build_cast(b, v, GRAFT_F32), 3, (int64_t[]){n, 1, hidden});
    t.vector[SCALE] = graft_build_scale(b, v, 1, 1);
    return linear(m, NAME("proj_out"), normed(m, &t, SCALE), m->a->channels);
}

static void check_shape(graft_graph *g, const graft_unet_shape *s)
{
    graft_transformer_check_side(g, s, 1, SIDE_MAX);
    graft_transformer_check_tokens(g, s, 1, SIDE_MAX);
    graft_transformer_check_wide(g, s, "Qwen-Image 2.1");
    graft_transformer_check_unchanged(g, s, s->control || s->perturbed);
}

graft_status graft_qwen_image21_build(const graft_qwen_image21_arch *a,
                                      const graft_unet_shape *shape, graft_graph **out,
                                      graft_err *e)
{
    graft_graph *g = graft_graph_create();
    if (!g) return graft_fail_nomem(e, "transformer graph");
    const int64_t n = shape->batch, h = shape->height, w = shape->width;
    qwen_image21 m = {.b = {g, shape->act_dtype}, .a = a, .words = shape->tokens};
    tokens words, picture;
    check_shape(g, shape);
    m.rows = (int32_t)h;
    m.columns = (int32_t)w;
    graft_vid x = graft_graph_input(g, GRAFT_F32, 4, (int64_t[]){n, a->channels, h, w});
    const graft_vid t = graft_graph_input(g, GRAFT_F32, 1, &n);
    const graft_vid c = graft_graph_input(g, GRAFT_F32, 3, (int64_t[]){n, m.words, a->context_dim});
    count_words(&m, graft_graph_input(g, GRAFT_F32, 2, (int64_t[]){n, 1}));
    const graft_vid vec = conditioned(&m, t);
    tell(&m, &words, conditioned(&m, graft_build_scale(&m.b, m.words_count, 0, 0)));
    tell(&m, &picture, vec);
    m.zeros = graft_build_scale(&m.b, words.vector[SCALE], 0, 0);
    words.h = prompt(&m, c);
    picture.h = linear(&m, NAME("img_in"), graft_stream_patches(&m.b, x, 1), a->hidden);
    for (int i = 0; i < a->depth; i++) block(&m, i, &words, &picture);
    x = final_layer(&m, &picture, vec);
    graft_graph_output(g, graft_stream_unpatched(&m.b, x, m.rows, m.columns, 1));
    graft_status st = graft_graph_status(g, e);
    if (!st) {
        *out = g;
        return GRAFT_OK;
    }
    graft_graph_destroy(g);
    return st;
}
