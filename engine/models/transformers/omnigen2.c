#include "engine/models/transformers/omnigen2.h"

#include "engine/conditioning.h"
#include "engine/models/parts/stream.h"
#include "engine/models/parts/transformer.h"
#include "engine/models/parts/turned.h"

#define NAME(...) graft_name_make(__VA_ARGS__)
#define EPS       1e-5f     /* of norms by the root mean square */
#define SIDE_MAX  (1 << 15) /* tokens, and of a prompt */

/* Where a block's vectors have what. */
enum { SCALE, GATE, MLP_SCALE, MLP_GATE, VECTORS };

typedef struct omnigen2 {
    graft_build b;
    const graft_omnigen2_arch *a;
    graft_vid told;          /* SiLU of what the time becomes, (N,told) */
    graft_vid own;           /* how many of the prompt's tokens count (N,1) */
    graft_turns_back behind; /* the same, as how far pictures are behind its beginning */
    int64_t words;           /* tokens of the prompt */
    /* The latent's own, then those that are shown, in tokens, and where each stands on the first
     * axis behind the prompt. */
    graft_grid of[1 + GRAFT_REFERENCES];
    int32_t place[1 + GRAFT_REFERENCES];
    int n_pictures;
} omnigen2;

/* Tokens of a stream: those of `n` pictures, from this one on, then the prompt's. */
typedef struct sequence {
    graft_stream s; /* shifts: the gates' tanh stands there, since nothing is shifted */
    int first, n;
    bool words, told;
} sequence;

static int64_t cells(const omnigen2 *m, int picture)
{
    return (int64_t)m->of[picture].rows * m->of[picture].columns;
}

static int64_t all_cells(const omnigen2 *m, int first, int n)
{
    int64_t all = 0;
    for (int i = first; i < first + n; i++) all += cells(m, i);
    return all;
}

/* ------------------------------------------------------------------ places */

static graft_vid normed(const omnigen2 *m, graft_name layer, graft_vid v, int32_t heads)
{
    return graft_build_rms_norm(&m->b, NAME("%s.weight", layer.text), v, heads, EPS);
}

/* A picture by itself need not be turned by where it stands as a whole. */
static graft_vid turned_pictures(const omnigen2 *m, const sequence *q, graft_vid v, int32_t heads)
{
    const bool alone = q->n == 1 && !q->words;
    int64_t behind = all_cells(m, q->first, q->n);
    for (int i = q->first; i < q->first + q->n; i++) {
        behind -= cells(m, i);
        const graft_rope_grid grid = {.heads = heads,
                                      .rows = m->of[i].rows,
                                      .columns = m->of[i].columns,
                                      .behind = (int32_t)behind,
                                      .frame = alone ? 0 : m->place[i],
                                      .of_row = m->a->rope_dim,
                                      .of_column = m->a->rope_dim};
        v = graft_build_rope(&m->b, v, &grid);
    }
    return v;
}

/* One axis after the other: words are a grid of one column, whose rows turn the axis' values. */
static graft_vid turned_words(const omnigen2 *m, graft_vid v, int32_t heads)
{
    const int32_t side = m->a->rope_dim, head = m->a->hidden / m->a->heads;
    const int32_t values[3] = {head - 2 * side, side, side};
    int32_t behind = head;
    for (int i = 0; i < 3; i++) {
        behind -= values[i];
        const graft_rope_grid grid = {.heads = heads,
                                      .rows = (int32_t)m->words,
                                      .columns = 1,
                                      .of_row = values[i],
                                      .last = behind};
        v = graft_build_rope(&m->b, v, &grid);
    }
    return v;
}

static graft_vid turned(const omnigen2 *m, const sequence *q, graft_vid v, int32_t heads)
{
    const int64_t shown = all_cells(m, q->first, q->n);
    if (!q->words) return turned_pictures(m, q, v, heads);
    if (!q->n) return turned_words(m, v, heads);
    graft_vid words = graft_stream_tokens(&m->b, v, shown, m->words);
    words = graft_turned_back(&m->b, &m->behind, turned_words(m, words, heads), heads);
    v = turned_pictures(m, q, graft_stream_tokens(&m->b, v, 0, shown), heads);
    return graft_build_join(&m->b, v, words);
}

/* ------------------------------------------------------------------ blocks */

static graft_vid attention(const omnigen2 *m, const sequence *q, graft_vid v)
{
    static const char *const names[3] = {"to_q", "to_k", "to_v"};
    const graft_name name = NAME("%s.attn", q->s.name.text);
    const int32_t hidden = m->a->hidden, heads = m->a->heads, key_heads = m->a->key_heads;
    graft_vid in[3];
    for (int i = 0; i < 3; i++)
        in[i] = graft_build_linear(&m->b, NAME("%s.%s", name.text, names[i]), v,
                                   i ? hidden / heads * key_heads : hidden, false);
    in[0] = turned(m, q, normed(m, NAME("%s.norm_q", name.text), in[0], heads), heads);
    in[1] = turned(m, q, normed(m, NAME("%s.norm_k", name.text), in[1], key_heads), key_heads);
    for (int i = 1; i < 3; i++) in[i] = graft_stream_heads_shared(&m->b, in[i], heads, key_heads);
    if (q->words) {
        const graft_vid count = graft_stream_count(&m->b, m->own, all_cells(m, q->first, q->n));
        v = graft_build_attention_counted(&m->b, in, count, heads);
    } else {
        v = graft_build_attention(&m->b, in[0], in[1], in[2], heads, false);
    }
    return graft_build_linear(&m->b, NAME("%s.to_out.0", name.text), v, hidden, false);
}

static graft_vid feed_forward(const omnigen2 *m, const sequence *q, graft_vid v)
{
    static const graft_build_gated_layers layers = {"linear_1", "linear_3", "linear_2"};
    return graft_build_gated(&m->b, NAME("%s.feed_forward", q->s.name.text), &layers, v, m->a->mlp,
                             GRAFT_ACT_SILU);
}

/* What a branch sees: the stream, normed, and where it is told the time, scaled. */
static graft_vid begun(const omnigen2 *m, const sequence *q, const char *norm, int scale)
{
    const int64_t hidden = m->a->hidden;
    const graft_vid v = normed(m, NAME("%s.%s", q->s.name.text, norm), q->s.h, 1);
    if (!q->told) return v;
    return graft_build_mul(&m->b, v,
                           graft_graph_slice(m->b.g, q->s.scales, scale * hidden, hidden));
}

static void joins(const omnigen2 *m, sequence *q, const char *norm, int gate, graft_vid v)
{
    v = normed(m, NAME("%s.%s", q->s.name.text, norm), v, 1);
    q->s.h =
        q->told ? graft_stream_gated(&m->b, &q->s, gate, v) : graft_build_add(&m->b, v, q->s.h);
}

static void blocks(const omnigen2 *m, const char *list, int32_t depth, sequence *q)
{
    for (int i = 0; i < depth; i++) {
        q->s.name = NAME("%s.%d", list, i);
        if (q->told) {
            graft_stream_modulate(&m->b, &q->s, NAME("%s.norm1.linear", q->s.name.text), m->told,
                                  VECTORS);
            q->s.shifts = graft_build_act(&m->b, q->s.shifts, GRAFT_ACT_TANH);
        }
        const graft_vid v = begun(m, q, q->told ? "norm1.norm" : "norm1", SCALE);
        joins(m, q, "norm2", GATE, attention(m, q, v));
        joins(m, q, "ffn_norm2", MLP_GATE, feed_forward(m, q, begun(m, q, "ffn_norm1", MLP_SCALE)));
    }
}

/* ------------------------------------------------------------------ in and out */

/* The network is told 1000 where nothing is noise. */
static graft_vid conditioned(const omnigen2 *m, graft_vid t)
{
    static const char name[] = "time_caption_embed.timestep_embedder";
    const graft_build *b = &m->b;
    t = graft_build_waves(b, graft_build_scale(b, t, -1, 1000), m->a->time_dim);
    t = graft_build_linear(b, NAME("%s.linear_1", name), graft_build_cast(b, t, b->act_dtype),
                           m->a->told, true);
    t = graft_build_act(b, t, GRAFT_ACT_SILU);
    t = graft_build_linear(b, NAME("%s.linear_2", name), t, m->a->told, true);
    return graft_build_act(b, t, GRAFT_ACT_SILU);
}

static graft_vid prompt(const omnigen2 *m, graft_vid context)
{
    static const char name[] = "time_caption_embed.caption_embedder";
    sequence q = {.words = true};
    context = graft_build_cast(&m->b, normed(m, NAME("%s.0", name), context, 1), m->b.act_dtype);
    q.s.h = graft_build_linear(&m->b, NAME("%s.1", name), context, m->a->hidden, true);
    blocks(m, "context_refiner", m->a->context_depth, &q);
    return q.s.h;
}

/* The vector that reference i is marked by, from 0 on, (N,1,hidden). */
static graft_vid mark(const omnigen2 *m, int i)
{
    const graft_build *b = &m->b;
    const int64_t n = graft_build_dim(b, m->own, 0), hidden = m->a->hidden;
    const graft_vid own = graft_graph_reshape(b->g, m->own, 1, &n);
    const graft_vid in[2] = {
        graft_build_cast(b, graft_build_scale(b, own, 0, (float)i), GRAFT_I32),
        graft_graph_weight(b->g, "image_index_embedding", 2, (int64_t[]){m->a->pictures, hidden})};
    if (in[0] < 0 || in[1] < 0) return GRAFT_NO_VALUE;
    const graft_vid v = graft_graph_node(b->g, GRAFT_OP_EMBEDDING, NULL, in, 2, b->act_dtype);
    return graft_graph_reshape(b->g, v, 3, (int64_t[]){n, 1, hidden});
}

/* Picture i as a latent (N,c,h,w), through its own blocks. */
static graft_vid refined(const omnigen2 *m, int i, graft_vid x)
{
    sequence q = {.first = i, .n = 1, .told = true};
    x = graft_stream_patches(&m->b, x, m->a->patch);
    q.s.h = graft_build_linear(&m->b, NAME(i ? "ref_image_patch_embedder" : "x_embedder"), x,
                               m->a->hidden, true);
    if (i) q.s.h = graft_build_add(&m->b, q.s.h, mark(m, i - 1));
    blocks(m, i ? "ref_image_refiner" : "noise_refiner",
           i ? m->a->picture_depth : m->a->noise_depth, &q);
    return q.s.h;
}

/* Picture i of x (N,values), which begins at value `at`. */
static graft_vid cut_out(const omnigen2 *m, graft_vid x, int i, int64_t at)
{
    const int64_t n = graft_build_dim(&m->b, x, 0), c = m->a->channels, p = m->a->patch;
    x = graft_graph_slice(m->b.g, x, at, c * p * p * cells(m, i));
    x = graft_build_dense(&m->b, x, GRAFT_DTYPE_NONE);
    return graft_graph_reshape(m->b.g, x, 4,
                               (int64_t[]){n, c, p * m->of[i].rows, p * m->of[i].columns});
}

/* The graph's first input. */
static graft_vid latents(const omnigen2 *m, const graft_net_shape *s)
{
    const int64_t n = s->batch, c = m->a->channels, p = m->a->patch;
    if (m->n_pictures == 1)
        return graft_graph_input(m->b.g, GRAFT_F32, 4, (int64_t[]){n, c, s->height, s->width});
    return graft_graph_input(m->b.g, GRAFT_F32, 2,
                             (int64_t[]){n, c * p * p * all_cells(m, 0, m->n_pictures)});
}

/* The stream of all, of x as it comes in and the prompt. */
static graft_vid joined(const omnigen2 *m, graft_vid x, graft_vid words)
{
    const int64_t values = (int64_t)m->a->channels * m->a->patch * m->a->patch;
    graft_vid all = refined(m, 0, m->n_pictures == 1 ? x : cut_out(m, x, 0, 0));
    int64_t at = 0;
    for (int i = 1; i < m->n_pictures; i++) {
        at += values * cells(m, i - 1);
        all = graft_build_join(&m->b, all, refined(m, i, cut_out(m, x, i, at)));
    }
    return graft_build_join(&m->b, all, words);
}

/* Scaled by the time, but not shifted. */
static graft_vid final_layer(const omnigen2 *m, graft_vid h)
{
    const graft_omnigen2_arch *a = m->a;
    graft_stream s = {.h = h};
    graft_stream_modulate(&m->b, &s, NAME("norm_out.linear_1"), m->told, 1);
    const graft_vid in[3] = {h, s.scales, graft_build_scale(&m->b, s.shifts, 0, 0)};
    if (in[0] < 0 || in[1] < 0 || in[2] < 0) return GRAFT_NO_VALUE;
    h = graft_graph_node(m->b.g, GRAFT_OP_LAYER_NORM, &(graft_attrs){.eps = GRAFT_STREAM_EPS}, in,
                         3, GRAFT_DTYPE_NONE);
    return graft_build_linear(&m->b, NAME("norm_out.linear_2"), h,
                              a->patch * a->patch * a->channels, true);
}

static void check_shape(graft_graph *g, const graft_omnigen2_arch *a, const graft_net_shape *s)
{
    const graft_references *r = &s->references;
    graft_transformer_check_patches(g, s, a->patch);
    graft_transformer_check_side(g, s, a->patch, SIDE_MAX);
    graft_transformer_check_tokens(g, s, 1, SIDE_MAX);
    graft_transformer_check_wide(g, s, "OmniGen2");
    graft_transformer_check_unchanged(g, s, s->control || s->perturbed);
    if (r->placing != GRAFT_PLACE_BESIDE && r->placing != GRAFT_PLACE_BEHIND)
        graft_graph_fail(g, GRAFT_E_UNSUPPORTED,
                         "OmniGen2's references stand each by itself, and the network is told as "
                         "much noise in them as in the picture");
    if (r->n > a->pictures)
        graft_graph_fail(g, GRAFT_E_UNSUPPORTED,
                         "this OmniGen2 is shown at most %d pictures, and there are %d",
                         a->pictures, r->n);
}

/* What is where behind the prompt. */
static void place(omnigen2 *m, const graft_net_shape *s)
{
    const graft_references *r = &s->references;
    const int32_t patch = m->a->patch;
    m->of[0] = (graft_grid){(int32_t)(s->height / patch), (int32_t)(s->width / patch)};
    m->n_pictures = 1 + r->n;
    for (int i = 1; i < m->n_pictures; i++) {
        const graft_grid of = r->of[i - 1];
        m->of[i] = (graft_grid){(int32_t)(graft_reference_side(of.rows, patch) / patch),
                                (int32_t)(graft_reference_side(of.columns, patch) / patch)};
        if (of.rows < 1 || of.columns < 1 || m->of[i].rows > SIDE_MAX ||
            m->of[i].columns > SIDE_MAX)
            graft_graph_fail(m->b.g, GRAFT_E_ARG, "a reference of %d x %d", of.columns, of.rows);
        m->place[i] = m->place[0];
        m->place[0] += m->of[i].rows > m->of[i].columns ? m->of[i].rows : m->of[i].columns;
    }
}

/* How many words count, and how far behind the first of them that leaves the pictures. */
static void count_words(omnigen2 *m, graft_vid y)
{
    const int64_t n = graft_build_dim(&m->b, y, 0);
    m->own = y;
    m->behind = graft_turns_back_by(&m->b, graft_graph_reshape(m->b.g, y, 1, &n),
                                    m->a->hidden / m->a->heads - 2 * m->a->rope_dim);
}

graft_status graft_omnigen2_build(const graft_omnigen2_arch *a, const graft_net_shape *shape,
                                  graft_graph **out, graft_err *e)
{
    graft_graph *g = graft_graph_create();
    if (!g) return graft_fail_nomem(e, "transformer graph");
    const int64_t n = shape->batch;
    omnigen2 m = {.b = {g, shape->act_dtype}, .a = a, .words = shape->tokens};
    check_shape(g, a, shape);
    place(&m, shape);
    graft_vid x = latents(&m, shape);
    const graft_vid t = graft_graph_input(g, GRAFT_F32, 1, &n);
    const graft_vid c = graft_graph_input(g, GRAFT_F32, 3, (int64_t[]){n, m.words, a->context_dim});
    count_words(&m, graft_graph_input(g, GRAFT_F32, 2, (int64_t[]){n, 1}));
    m.told = conditioned(&m, t);
    sequence all = {.n = m.n_pictures, .words = true, .told = true};
    all.s.h = joined(&m, x, prompt(&m, c));
    blocks(&m, "layers", a->depth, &all);
    x = final_layer(&m, graft_stream_tokens(&m.b, all.s.h, 0, cells(&m, 0)));
    x = graft_stream_unpatched(&m.b, x, m.of[0].rows, m.of[0].columns, a->patch);
    graft_graph_output(g, graft_build_scale(&m.b, x, -1, 0));
    graft_status st = graft_graph_status(g, e);
    if (!st) {
        *out = g;
        return GRAFT_OK;
    }
    graft_graph_destroy(g);
    return st;
}
