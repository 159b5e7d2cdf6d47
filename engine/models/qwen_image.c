#include "engine/models/qwen_image.h"

#include "engine/conditioning.h"
#include "engine/models/stream.h"
#include "engine/models/transformer.h"

#define NAME(...) graft_name_make(__VA_ARGS__)
#define SIDE_MAX  (1 << 15) /* tokens, and of a prompt */

/* Where a stream's vectors have what. */
enum { SHIFT, SCALE, GATE, MLP_SHIFT, MLP_SCALE, MLP_GATE, VECTORS };

typedef struct qwen_image {
    graft_build b;
    const graft_qwen_image_arch *a;
    graft_vid vec;       /* SiLU of what the network is conditioned on, (N,hidden) */
    graft_vid vec_clean; /* of that without noise, behind vec, (2N,hidden); or GRAFT_NO_VALUE */
    int64_t words;       /* tokens of the prompt, which are the first */
    /* The latent's own, then those of the references, in tokens. */
    graft_unet_grid of[1 + GRAFT_REFERENCES];
    int n_pictures;
    graft_unet_grid middle; /* the most rows and columns that any has before its middle */
} qwen_image;

/* The stream of all pictures' tokens. Where references are told of no noise they have norms and
 * gates of their own: they are `clean`, which else has no h. */
typedef struct pictures {
    graft_stream own, clean;
} pictures;

/* What a stream's layers of attention are called below its block. */
typedef struct layers {
    const char *qkv[3], *norm[2], *out;
} layers;
static const layers of_text = {
    {"add_q_proj", "add_k_proj", "add_v_proj"}, {"norm_added_q", "norm_added_k"}, "to_add_out"};
static const layers of_picture = {{"to_q", "to_k", "to_v"}, {"norm_q", "norm_k"}, "to_out.0"};

static int64_t cells(const qwen_image *m, int picture)
{
    return (int64_t)m->of[picture].rows * m->of[picture].columns;
}

/* ------------------------------------------------------------------ places */

static graft_vid rotated(const qwen_image *m, graft_vid v, graft_rope_grid grid)
{
    grid.heads = m->a->heads;
    return graft_build_rope(&m->b, v, &grid);
}

/* Tokens in front of the middle. */
static graft_unet_grid before_middle(graft_unet_grid of)
{
    return (graft_unet_grid){of.rows - of.rows / 2, of.columns - of.columns / 2};
}

/* Only differences of places count, so all are moved along each axis until none is below 0. The
 * last picture's tokens are the last. */
static graft_vid turned_pictures(const qwen_image *m, graft_vid v)
{
    int64_t behind = 0;
    for (int i = m->n_pictures - 1; i >= 0; i--) {
        const graft_unet_grid before = before_middle(m->of[i]);
        v = rotated(m, v,
                    (graft_rope_grid){.rows = m->of[i].rows,
                                      .columns = m->of[i].columns,
                                      .behind = (int32_t)behind,
                                      .top = m->middle.rows - before.rows,
                                      .left = m->middle.columns - before.columns,
                                      .frame = i,
                                      .of_row = m->a->rope_dim,
                                      .of_column = m->a->rope_dim});
        behind += cells(m, i);
    }
    return v;
}

/* One axis after the other: words are a grid of one column, whose rows turn the axis' values. */
static graft_vid turned_text(const qwen_image *m, graft_vid v)
{
    const int32_t side = m->a->rope_dim, first = m->a->hidden / m->a->heads - 2 * side;
    int32_t from = 0;
    for (int i = 0; i < m->n_pictures; i++) {
        const int32_t rows = m->of[i].rows, columns = m->of[i].columns;
        const int32_t half = (rows > columns ? rows : columns) / 2;
        if (half > from) from = half;
    }
    const struct {
        int32_t values, moved;
    } axis[] = {{first, 0}, {side, m->middle.rows}, {side, m->middle.columns}};
    int32_t behind = first + 2 * side;
    for (int i = 0; i < 3; i++) {
        behind -= axis[i].values;
        v = rotated(m, v,
                    (graft_rope_grid){.rows = (int32_t)m->words,
                                      .columns = 1,
                                      .top = from + axis[i].moved,
                                      .of_row = axis[i].values,
                                      .last = behind});
    }
    return v;
}

/* ------------------------------------------------------------------ blocks */

/* Queries, keys and values of what block i sees of a stream, the former two normed. */
static void projected(const qwen_image *m, int i, const layers *l, graft_vid v, graft_vid qkv[3])
{
    const graft_name name = NAME("transformer_blocks.%d.attn", i);
    for (int k = 0; k < 3; k++)
        qkv[k] =
            graft_build_linear(&m->b, NAME("%s.%s", name.text, l->qkv[k]), v, m->a->hidden, true);
    for (int k = 0; k < 2; k++)
        qkv[k] = graft_stream_head_normed(&m->b, NAME("%s.%s.weight", name.text, l->norm[k]),
                                          qkv[k], m->a->heads);
}

/* What attention gave goes through block i's last layer of it. */
static graft_vid put_out(const qwen_image *m, int i, const layers *l, graft_vid v)
{
    return graft_build_linear(&m->b, NAME("transformer_blocks.%d.attn.%s", i, l->out), v,
                              m->a->hidden, true);
}

static graft_vid mlp(const qwen_image *m, graft_name stream, graft_vid v)
{
    v = graft_build_linear(&m->b, NAME("%s_mlp.net.0.proj", stream.text), v, m->a->mlp, true);
    v = graft_build_act(&m->b, v, GRAFT_ACT_GELU_TANH);
    return graft_build_linear(&m->b, NAME("%s_mlp.net.2", stream.text), v, m->a->hidden, true);
}

static graft_vid normed(const qwen_image *m, const pictures *p, int shift)
{
    const graft_vid own = graft_stream_normed(&m->b, &p->own, shift);
    if (p->clean.h < 0) return own;
    return graft_build_join(&m->b, own, graft_stream_normed(&m->b, &p->clean, shift));
}

static void gate(const qwen_image *m, pictures *p, int vector, graft_vid v)
{
    const int64_t own = cells(m, 0), all = graft_build_dim(&m->b, v, 1);
    if (p->clean.h < 0) {
        p->own.h = graft_stream_gated(&m->b, &p->own, vector, v);
        return;
    }
    p->own.h = graft_stream_gated(&m->b, &p->own, vector, graft_stream_tokens(&m->b, v, 0, own));
    p->clean.h =
        graft_stream_gated(&m->b, &p->clean, vector, graft_stream_tokens(&m->b, v, own, all - own));
}

static void join_text(const qwen_image *m, int i, graft_stream *s, graft_vid v)
{
    s->h = graft_stream_gated(&m->b, s, GATE, put_out(m, i, &of_text, v));
    v = mlp(m, s->name, graft_stream_normed(&m->b, s, MLP_SHIFT));
    s->h = graft_stream_gated(&m->b, s, MLP_GATE, v);
}

static void join_pictures(const qwen_image *m, int i, pictures *p, graft_vid v)
{
    gate(m, p, GATE, put_out(m, i, &of_picture, v));
    gate(m, p, MLP_GATE, mlp(m, p->own.name, normed(m, p, MLP_SHIFT)));
}

static void modulate(const qwen_image *m, graft_stream *s)
{
    graft_stream_modulate(&m->b, s, NAME("%s_mod.1", s->name.text), m->vec, VECTORS);
}

/* One layer makes the vectors of both, from rows that lie one behind the other. */
static void modulate_pictures(const qwen_image *m, pictures *p)
{
    const graft_build *b = &m->b;
    const int64_t n = graft_build_dim(b, m->vec, 0);
    if (m->vec_clean < 0) {
        modulate(m, &p->own);
        return;
    }
    graft_vid all = graft_build_linear(b, NAME("%s_mod.1", p->own.name.text), m->vec_clean,
                                       VECTORS * m->a->hidden, true);
    all = graft_build_cast(b, all, GRAFT_F32);
    graft_stream_modulate_given(b, &p->own, graft_graph_slice_rows(b->g, all, 0, n), 0, VECTORS);
    graft_stream_modulate_given(b, &p->clean, graft_graph_slice_rows(b->g, all, n, n), 0, VECTORS);
}

/* Behind the last attention nobody reads the references. */
static void leave_references(const qwen_image *m, pictures *p)
{
    if (p->clean.h < 0 && m->n_pictures > 1)
        p->own.h = graft_stream_tokens(&m->b, p->own.h, 0, cells(m, 0));
    p->clean.h = GRAFT_NO_VALUE;
}

/* Behind the last block nobody reads the prompt: its layers there are named, so that a file is held
 * against them, and not computed. */
static void unread(const qwen_image *m, int i, const graft_stream *text)
{
    const int64_t hidden = m->a->hidden, mlp = m->a->mlp;
    const struct {
        graft_name name;
        int64_t dim[2];
    } layer[] = {{NAME("transformer_blocks.%d.attn.%s", i, of_text.out), {hidden, hidden}},
                 {NAME("%s_mlp.net.0.proj", text->name.text), {mlp, hidden}},
                 {NAME("%s_mlp.net.2", text->name.text), {hidden, mlp}}};
    for (int k = 0; k < 3; k++) {
        graft_graph_weight(m->b.g, NAME("%s.weight", layer[k].name.text).text, 2, layer[k].dim);
        graft_graph_weight(m->b.g, NAME("%s.bias", layer[k].name.text).text, 1, layer[k].dim);
    }
}

static void block(const qwen_image *m, int i, graft_stream *text, pictures *p)
{
    graft_vid words[3], shown[3], both[3];
    const bool last = i + 1 == m->a->depth;
    text->name = NAME("transformer_blocks.%d.txt", i);
    p->own.name = NAME("transformer_blocks.%d.img", i);
    modulate(m, text);
    modulate_pictures(m, p);
    projected(m, i, &of_text, graft_stream_normed(&m->b, text, SHIFT), words);
    projected(m, i, &of_picture, normed(m, p, SHIFT), shown);
    const int64_t all = graft_build_dim(&m->b, shown[0], 1);
    for (int k = 0; k < 2; k++) {
        words[k] = turned_text(m, words[k]);
        shown[k] = turned_pictures(m, shown[k]);
    }
    for (int k = 0; k < 3; k++) both[k] = graft_build_join(&m->b, words[k], shown[k]);
    graft_vid v = graft_build_attention(&m->b, both[0], both[1], both[2], m->a->heads, false);
    if (last) leave_references(m, p);
    join_pictures(m, i, p, graft_stream_tokens(&m->b, v, m->words, last ? cells(m, 0) : all));
    if (last)
        unread(m, i, text);
    else
        join_text(m, i, text, graft_stream_tokens(&m->b, v, 0, m->words));
}

/* ------------------------------------------------------------------ in and out */

static graft_vid conditioned(const qwen_image *m, graft_vid t)
{
    static const char name[] = "time_text_embed.timestep_embedder";
    const graft_build *b = &m->b;
    t = graft_build_cast(b, graft_build_waves(b, t, m->a->time_dim), b->act_dtype);
    t = graft_build_linear(b, NAME("%s.linear_1", name), t, m->a->hidden, true);
    t = graft_build_act(b, t, GRAFT_ACT_SILU);
    t = graft_build_linear(b, NAME("%s.linear_2", name), t, m->a->hidden, true);
    return graft_build_act(b, t, GRAFT_ACT_SILU);
}

/* vec, and where references are told of no noise vec_clean. */
static void condition(qwen_image *m, graft_vid t, bool clean)
{
    graft_graph *g = m->b.g;
    const int64_t n = graft_build_dim(&m->b, t, 0), twice = 2 * n;
    m->vec_clean = GRAFT_NO_VALUE;
    if (clean) {
        const graft_vid row = graft_graph_reshape(g, t, 2, (int64_t[]){1, n});
        t = graft_build_concat(&m->b, row, graft_build_scale(&m->b, row, 0, 0));
        t = graft_graph_reshape(g, t, 1, &twice);
    }
    m->vec = conditioned(m, t);
    if (!clean) return;
    m->vec_clean = m->vec;
    m->vec = graft_graph_slice_rows(g, m->vec_clean, 0, n);
}

static graft_vid prompt(const qwen_image *m, graft_vid context)
{
    context = graft_stream_head_normed(&m->b, NAME("txt_norm.weight"), context, 1);
    context = graft_build_cast(&m->b, context, m->b.act_dtype);
    return graft_build_linear(&m->b, NAME("txt_in"), context, m->a->hidden, true);
}

/* Its scale stands before its shift, unlike in blocks. */
static graft_vid final_layer(const qwen_image *m, graft_vid h)
{
    const int64_t hidden = m->a->hidden;
    graft_stream s = {.h = h};
    graft_stream_modulate(&m->b, &s, NAME("norm_out.linear"), m->vec, 2);
    const graft_vid in[3] = {h, graft_graph_slice(m->b.g, s.scales, 0, hidden),
                             graft_graph_slice(m->b.g, s.shifts, hidden, hidden)};
    if (in[0] < 0 || in[1] < 0 || in[2] < 0) return GRAFT_NO_VALUE;
    h = graft_graph_node(m->b.g, GRAFT_OP_LAYER_NORM, &(graft_attrs){.eps = GRAFT_STREAM_EPS}, in,
                         3, GRAFT_DTYPE_NONE);
    return graft_build_linear(&m->b, NAME("proj_out"), h,
                              m->a->patch * m->a->patch * m->a->channels, true);
}

/* Picture i of x (N,values), which begins at value `at`, as tokens. */
static graft_vid cut_out(const qwen_image *m, graft_vid x, int i, int64_t at)
{
    const int64_t n = graft_build_dim(&m->b, x, 0), c = m->a->channels, p = m->a->patch;
    x = graft_graph_slice(m->b.g, x, at, c * p * p * cells(m, i));
    x = graft_build_dense(&m->b, x, GRAFT_DTYPE_NONE);
    x = graft_graph_reshape(m->b.g, x, 4,
                            (int64_t[]){n, c, p * m->of[i].rows, p * m->of[i].columns});
    return graft_stream_plane_patches(&m->b, x, m->a->patch);
}

/* The graph's first input. */
static graft_vid latents(const qwen_image *m, const graft_unet_shape *s)
{
    const int64_t n = s->batch, c = m->a->channels, p = m->a->patch;
    int64_t values = 0;
    for (int i = 0; i < m->n_pictures; i++) values += c * p * p * cells(m, i);
    if (m->n_pictures == 1)
        return graft_graph_input(m->b.g, GRAFT_F32, 4, (int64_t[]){n, c, s->height, s->width});
    return graft_graph_input(m->b.g, GRAFT_F32, 2, (int64_t[]){n, values});
}

/* The tokens of one picture after the other, of x (N,values). */
static graft_vid joined(const qwen_image *m, graft_vid x)
{
    const int64_t c = m->a->channels, p = m->a->patch;
    graft_vid all = cut_out(m, x, 0, 0);
    int64_t at = 0;
    for (int i = 1; i < m->n_pictures; i++) {
        at += c * p * p * cells(m, i - 1);
        all = graft_build_join(&m->b, all, cut_out(m, x, i, at));
    }
    return all;
}

/* All pictures as they come in, x, as tokens. */
static graft_vid seen(const qwen_image *m, graft_vid x)
{
    return m->n_pictures == 1 ? graft_stream_plane_patches(&m->b, x, m->a->patch) : joined(m, x);
}

static pictures embedded(const qwen_image *m, graft_vid v)
{
    pictures p = {.clean.h = GRAFT_NO_VALUE};
    p.own.h = graft_build_linear(&m->b, NAME("img_in"), v, m->a->hidden, true);
    if (m->vec_clean < 0) return p;
    const int64_t own = cells(m, 0), all = graft_build_dim(&m->b, p.own.h, 1);
    p.clean.h = graft_stream_tokens(&m->b, p.own.h, own, all - own);
    p.own.h = graft_stream_tokens(&m->b, p.own.h, 0, own);
    return p;
}

static void check_shape(graft_graph *g, const graft_qwen_image_arch *a, const graft_unet_shape *s)
{
    graft_transformer_check_patches(g, s, a->patch);
    graft_transformer_check_side(g, s, a->patch, SIDE_MAX);
    if (s->tokens < 1 || s->tokens > SIDE_MAX)
        graft_graph_fail(g, s->tokens < 1 ? GRAFT_E_ARG : GRAFT_E_LIMIT,
                         "a prompt of %lld tokens: this transformer takes 1 to %d",
                         (long long)s->tokens, SIDE_MAX);
    if (s->act_dtype != GRAFT_F32 && s->act_dtype != GRAFT_BF16)
        graft_graph_fail(g, GRAFT_E_UNSUPPORTED,
                         "Qwen-Image runs in float32 and bfloat16 only: its values exceed float16");
    graft_transformer_check_unchanged(g, s, s->control || s->perturbed);
}

static int32_t in_tokens(const qwen_image *m, int32_t cells)
{
    return (int32_t)(graft_reference_side(cells, m->a->patch) / m->a->patch);
}

static void place(qwen_image *m, const graft_unet_shape *s)
{
    const graft_references *r = &s->references;
    const int32_t patch = m->a->patch;
    m->of[0] = (graft_unet_grid){(int32_t)(s->height / patch), (int32_t)(s->width / patch)};
    m->n_pictures = 1 + r->n;
    if (r->placing == GRAFT_PLACE_DIAGONAL)
        graft_graph_fail(m->b.g, GRAFT_E_UNSUPPORTED,
                         "Qwen-Image's references stand each by itself, not along a diagonal as "
                         "UNO's for FLUX.1");
    for (int i = 0; i < r->n; i++) {
        m->of[1 + i] =
            (graft_unet_grid){in_tokens(m, r->of[i].rows), in_tokens(m, r->of[i].columns)};
        if (r->of[i].rows < 1 || r->of[i].columns < 1 || m->of[1 + i].rows > SIDE_MAX ||
            m->of[1 + i].columns > SIDE_MAX)
            graft_graph_fail(m->b.g, GRAFT_E_ARG, "a reference of %d x %d", r->of[i].columns,
                             r->of[i].rows);
    }
    for (int i = 0; i < m->n_pictures; i++) {
        const graft_unet_grid before = before_middle(m->of[i]);
        if (before.rows > m->middle.rows) m->middle.rows = before.rows;
        if (before.columns > m->middle.columns) m->middle.columns = before.columns;
    }
}

graft_status graft_qwen_image_build(const graft_qwen_image_arch *a, const graft_unet_shape *shape,
                                    graft_graph **out, graft_err *e)
{
    graft_graph *g = graft_graph_create();
    if (!g) return graft_fail_nomem(e, "transformer graph");
    qwen_image m = {.b = {g, shape->act_dtype}, .a = a, .words = shape->tokens};
    const int64_t n = shape->batch;
    const bool clean = shape->references.n &&
                       (a->clean_references || shape->references.placing == GRAFT_PLACE_CLEAN);
    check_shape(g, a, shape);
    place(&m, shape);
    graft_vid x = latents(&m, shape);
    graft_vid t = graft_graph_input(g, GRAFT_F32, 1, &n);
    graft_vid c = graft_graph_input(g, GRAFT_F32, 3, (int64_t[]){n, m.words, a->context_dim});
    condition(&m, t, clean);
    x = seen(&m, x);
    graft_stream text = {.h = prompt(&m, c)};
    pictures p = embedded(&m, x);
    for (int i = 0; i < a->depth; i++) block(&m, i, &text, &p);
    x = final_layer(&m, p.own.h);
    graft_graph_output(
        g, graft_stream_plane_unpatched(&m.b, x, m.of[0].rows, m.of[0].columns, a->patch));
    graft_status st = graft_graph_status(g, e);
    if (!st) {
        *out = g;
        return GRAFT_OK;
    }
    graft_graph_destroy(g);
    return st;
}
