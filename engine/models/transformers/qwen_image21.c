#include "engine/models/transformers/qwen_image21.h"

#include "engine/models/parts/stream.h"
#include "engine/models/parts/tensors.h"
#include "engine/models/parts/transformer.h"
#include "engine/models/parts/turned.h"

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

/* What follows each other in the sequence before the picture: tokens of the prompt, or a reference.
 */
typedef struct stretch {
    const graft_grid *of; /* NULL: the prompt's */
    int64_t begin, tokens;
    int32_t place; /* on the first axis */
} stretch;

typedef struct qwen_image21 {
    graft_build b;
    const graft_qwen_image21_arch *a;
    graft_vid zeros;       /* (N,1,hidden): a norm's shift */
    graft_vid words_count; /* of the prompt's tokens that count, (N) float32 */
    graft_vid count;       /* of all tokens: the picture's, then those of the prompt (N) */
    int64_t words;         /* the prompt's tokens, those that fill it up among them */
    int64_t before;        /* tokens before the picture: these, and the references' */
    stretch part[2 * GRAFT_REFERENCES + 1];
    int n_parts;
    int32_t further;         /* places that the references take on the first axis */
    graft_grid middle;       /* row and column of all middles, which leave none below 0 */
    int32_t rows, columns;   /* of the picture's */
    graft_turns_back behind; /* how far the picture is behind the prompt's beginning */
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

/* Only differences of places count, so rows and columns of all are moved until none is below 0. */
static void move_middle(qwen_image21 *m, graft_grid of)
{
    const graft_grid own = {of.rows - of.rows / 2, of.columns - of.columns / 2};
    if (m->middle.rows < own.rows) m->middle.rows = own.rows;
    if (m->middle.columns < own.columns) m->middle.columns = own.columns;
}

/* A picture's tokens, all of them at one place on the first axis. */
static graft_vid turned_picture(const qwen_image21 *m, graft_grid of, int32_t place, graft_vid v)
{
    return rotated(m, v,
                   (graft_rope_grid){.rows = of.rows,
                                     .columns = of.columns,
                                     .frame = place,
                                     .top = m->middle.rows - (of.rows - of.rows / 2),
                                     .left = m->middle.columns - (of.columns - of.columns / 2),
                                     .of_row = m->a->rope_dim,
                                     .of_column = m->a->rope_dim});
}

/* One axis after the other: words are a grid of one column, whose rows turn the axis' values. */
static graft_vid turned_words(const qwen_image21 *m, const stretch *p, graft_vid v)
{
    const int32_t turning = m->a->rope_dim;
    const struct {
        int32_t values, from;
    } axis[] = {{first_axis(m), p->place},
                {turning, m->middle.rows + p->place},
                {turning, m->middle.columns + p->place}};
    int32_t behind = m->a->hidden / m->a->heads;
    for (int i = 0; i < 3; i++) {
        behind -= axis[i].values;
        v = rotated(m, v,
                    (graft_rope_grid){.rows = (int32_t)p->tokens,
                                      .columns = 1,
                                      .top = axis[i].from,
                                      .of_row = axis[i].values,
                                      .last = behind});
    }
    return v;
}

/* So many of the tokens before the picture. */
static graft_vid cut(const qwen_image21 *m, graft_vid v, int64_t begin, int64_t count)
{
    return count == m->before ? v : graft_stream_tokens(&m->b, v, begin, count);
}

/* All that is before the picture, part by part. */
static graft_vid turned_before(const qwen_image21 *m, graft_vid v)
{
    graft_vid all = GRAFT_NO_VALUE;
    for (int i = 0; i < m->n_parts; i++) {
        const stretch *p = &m->part[i];
        graft_vid own = cut(m, v, p->begin, p->tokens);
        own = p->of ? turned_picture(m, *p->of, p->place, own) : turned_words(m, p, own);
        all = i ? graft_build_join(&m->b, all, own) : own;
    }
    return all;
}

/* The keys before the picture as it sees them: it stands behind the last word that counts, and what
 * is at 0 for it is so many places further on. */
static graft_vid seen_from_picture(const qwen_image21 *m, graft_vid v)
{
    return graft_turned_back(&m->b, &m->behind, v, m->a->heads);
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

/* What tokens before the picture see. A causal operator has as many queries as keys: for words
 * behind a reference those before them are asked once more, and left out. */
static graft_vid attended_before(const qwen_image21 *m, const graft_vid qkv[3])
{
    graft_vid all = GRAFT_NO_VALUE;
    for (int i = 0; i < m->n_parts; i++) {
        const stretch *p = &m->part[i];
        const int64_t end = p->begin + p->tokens;
        const graft_vid query =
            p->of ? cut(m, qkv[0], p->begin, p->tokens) : cut(m, qkv[0], 0, end);
        graft_vid v = graft_build_attention(&m->b, query, cut(m, qkv[1], 0, end),
                                            cut(m, qkv[2], 0, end), m->a->heads, !p->of);
        if (!p->of && p->begin) v = graft_stream_tokens(&m->b, v, p->begin, p->tokens);
        all = i ? graft_build_join(&m->b, all, v) : v;
    }
    return all;
}

/* Behind the last one nobody reads what is before the picture. */
static void block(const qwen_image21 *m, int i, tokens *words, tokens *picture)
{
    const graft_grid own = {m->rows, m->columns};
    const graft_name name = NAME("transformer_blocks.%d", i);
    graft_vid w[3], p[3];
    projected(m, name, normed(m, words, SCALE), w);
    projected(m, name, normed(m, picture, SCALE), p);
    for (int k = 0; k < 2; k++) {
        w[k] = turned_before(m, w[k]);
        p[k] = turned_picture(m, own, 0, p[k]);
    }
    const graft_vid in[3] = {p[0], graft_build_join(&m->b, p[1], seen_from_picture(m, w[1])),
                             graft_build_join(&m->b, p[2], w[2])};
    if (i + 1 < m->a->depth) join(m, name, words, attended_before(m, w));
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
    const int64_t n = graft_build_dim(b, y, 0);
    y = graft_build_dense(b, y, GRAFT_DTYPE_NONE);
    m->words_count = graft_graph_reshape(b->g, y, 1, &n);
    m->count = graft_stream_count(b, y, cells(m) + m->before - m->words);
    const graft_vid behind =
        m->further ? graft_build_scale(b, m->words_count, 1, (float)m->further) : m->words_count;
    m->behind = graft_turns_back_by(b, behind, first_axis(m));
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

/* Picture by picture of x (N,values), as tokens: the latent's own, then the references'. */
static graft_vid taken(const qwen_image21 *m, graft_vid x, graft_grid of, int64_t *at)
{
    const int64_t n = graft_build_dim(&m->b, x, 0), c = m->a->channels;
    const int64_t values = c * of.rows * of.columns;
    x = graft_build_dense(&m->b, graft_graph_slice(m->b.g, x, *at, values), GRAFT_DTYPE_NONE);
    *at += values;
    return graft_graph_reshape(m->b.g, x, 4, (int64_t[]){n, c, of.rows, of.columns});
}

static graft_vid embedded(const qwen_image21 *m, graft_vid x)
{
    return linear(m, NAME("img_in"), graft_stream_patches(&m->b, x, 1), m->a->hidden);
}

/* Both streams; x as it comes in, the prompt's tokens as the blocks see them. */
static void fill(const qwen_image21 *m, graft_vid x, graft_vid prompt, tokens *words,
                 tokens *picture)
{
    int64_t at = 0, word = 0;
    words->h = prompt;
    if (m->before == m->words) {
        picture->h = embedded(m, x);
        return;
    }
    picture->h = embedded(m, taken(m, x, (graft_grid){m->rows, m->columns}, &at));
    for (int i = 0; i < m->n_parts; i++) {
        const stretch *p = &m->part[i];
        const graft_vid v = p->of ? embedded(m, taken(m, x, *p->of, &at))
                                  : graft_stream_tokens(&m->b, prompt, word, p->tokens);
        word += p->of ? 0 : p->tokens;
        words->h = i ? graft_build_join(&m->b, words->h, v) : v;
    }
}

static void add_part(qwen_image21 *m, const graft_grid *of, int64_t count)
{
    if (!count) return;
    m->part[m->n_parts++] = (stretch){
        .of = of, .begin = m->before, .tokens = count, .place = (int32_t)(m->words + m->further)};
    m->before += count;
    if (!of)
        m->words += count;
    else
        m->further += of->rows > of->columns ? of->rows : of->columns;
}

static bool stands(const qwen_image21 *m, const graft_net_shape *s, int i)
{
    const graft_grid of = s->references.of[i];
    return of.rows > 0 && of.columns > 0 && of.rows <= SIDE_MAX && of.columns <= SIDE_MAX &&
           s->references.within[i] >= m->words && s->references.within[i] < s->tokens;
}

/* What is where before the picture. */
static void place(qwen_image21 *m, const graft_net_shape *s)
{
    const graft_references *r = &s->references;
    move_middle(m, (graft_grid){m->rows, m->columns});
    for (int i = 0; i < r->n; i++) {
        if (!stands(m, s, i)) {
            graft_graph_fail(m->b.g, GRAFT_E_ARG, "a reference of %d x %d behind %d of %lld tokens",
                             r->of[i].columns, r->of[i].rows, r->within[i], (long long)s->tokens);
            continue;
        }
        add_part(m, NULL, r->within[i] - m->words);
        add_part(m, &r->of[i], (int64_t)r->of[i].rows * r->of[i].columns);
        move_middle(m, r->of[i]);
    }
    add_part(m, NULL, s->tokens - m->words);
}

/* The graph's first input. */
static graft_vid latents(const qwen_image21 *m, const graft_net_shape *s)
{
    const int64_t n = s->batch, c = m->a->channels;
    if (m->before == m->words)
        return graft_graph_input(m->b.g, GRAFT_F32, 4, (int64_t[]){n, c, s->height, s->width});
    return graft_graph_input(m->b.g, GRAFT_F32, 2,
                             (int64_t[]){n, c * (cells(m) + m->before - m->words)});
}

static void check_shape(graft_graph *g, const graft_net_shape *s)
{
    graft_transformer_check_side(g, s, 1, SIDE_MAX);
    graft_transformer_check_tokens(g, s, 1, SIDE_MAX);
    graft_transformer_check_wide(g, s, "Qwen-Image 2.1");
    graft_transformer_check_unchanged(g, s, s->control || s->perturbed);
}

graft_status graft_qwen_image21_build(const graft_qwen_image21_arch *a,
                                      const graft_net_shape *shape, graft_graph **out, graft_err *e)
{
    graft_graph *g = graft_graph_create();
    if (!g) return graft_fail_nomem(e, "transformer graph");
    const int64_t n = shape->batch;
    qwen_image21 m = {.b = {g, shape->act_dtype}, .a = a};
    tokens words, picture;
    check_shape(g, shape);
    m.rows = (int32_t)shape->height;
    m.columns = (int32_t)shape->width;
    place(&m, shape);
    graft_vid x = latents(&m, shape);
    const graft_vid t = graft_graph_input(g, GRAFT_F32, 1, &n);
    const graft_vid c = graft_graph_input(g, GRAFT_F32, 3, (int64_t[]){n, m.words, a->context_dim});
    count_words(&m, graft_graph_input(g, GRAFT_F32, 2, (int64_t[]){n, 1}));
    const graft_vid vec = conditioned(&m, t);
    tell(&m, &words, conditioned(&m, graft_build_scale(&m.b, m.words_count, 0, 0)));
    tell(&m, &picture, vec);
    m.zeros = graft_build_scale(&m.b, words.vector[SCALE], 0, 0);
    fill(&m, x, prompt(&m, c), &words, &picture);
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
