#include "engine/models/mmdit.h"

#include "engine/models/build.h"

#define NAME(...) graft_name_make(__VA_ARGS__)
#define EPS       1e-6f

/* Where a stream's modulation has what; a second attention's stand behind the six. */
enum { SHIFT, SCALE, GATE, MLP_SHIFT, MLP_SCALE, MLP_GATE, CHUNKS, DUAL_CHUNKS = CHUNKS + 3 };

typedef struct mmdit {
    graft_build b;
    const graft_mmdit_arch *a;
    graft_vid vec; /* SiLU of what the timestep and the pooled prompt give, (N,hidden) */
    int64_t batch;
} mmdit;

/* One of the streams of a block. */
typedef struct stream {
    graft_name name;          /* "joint_blocks.3.x_block" */
    graft_vid shifts, scales; /* (N,1,chunks*hidden) float32: as they are, and one more */
    graft_vid h;              /* (N,tokens,hidden) */
} stream;

static graft_name below(const stream *s, const char *part)
{
    return NAME("%s.%s", s->name.text, part);
}

/* ------------------------------------------------------------------ modulation */

static void modulate(const mmdit *m, stream *s, int chunks)
{
    const graft_build *b = &m->b;
    int64_t width = (int64_t)chunks * m->a->hidden;
    graft_vid v =
        graft_build_linear(b, below(s, "adaLN_modulation.1"), m->vec, (int32_t)width, true);
    v = graft_build_cast(b, v, GRAFT_F32);
    s->shifts = graft_graph_reshape(b->g, v, 3, (const int64_t[]){m->batch, 1, width});
    s->scales = s->shifts < 0
                    ? s->shifts
                    : graft_graph_node(b->g, GRAFT_OP_SCALE, &(graft_attrs){.scale = 1, .shift = 1},
                                       &s->shifts, 1, GRAFT_DTYPE_NONE);
}

static graft_vid chunk(const mmdit *m, graft_vid of, int i)
{
    return graft_graph_slice(m->b.g, of, (int64_t)i * m->a->hidden, m->a->hidden);
}

/* The stream normed, as the chunks `shift` and the one behind it say. */
static graft_vid normed(const mmdit *m, const stream *s, int shift)
{
    graft_vid in[3] = {s->h, chunk(m, s->scales, shift + 1), chunk(m, s->shifts, shift)};
    if (in[0] < 0 || in[1] < 0 || in[2] < 0) return GRAFT_NO_VALUE;
    return graft_graph_node(m->b.g, GRAFT_OP_LAYER_NORM, &(graft_attrs){.eps = EPS}, in, 3,
                            GRAFT_DTYPE_NONE);
}

/* The stream + gate * v. */
static graft_vid gated(const mmdit *m, const stream *s, int gate, graft_vid v)
{
    graft_vid in[3] = {v, chunk(m, s->shifts, gate), s->h};
    if (in[0] < 0 || in[1] < 0 || in[2] < 0) return GRAFT_NO_VALUE;
    return graft_graph_node(m->b.g, GRAFT_OP_MUL, NULL, in, 3, GRAFT_DTYPE_NONE);
}

/* ------------------------------------------------------------------ attention */

static graft_vid head_normed(const mmdit *m, graft_name name, graft_vid v)
{
    const int64_t head_dim = m->a->hidden / m->a->heads;
    graft_vid in[2] = {v,
                       graft_graph_weight(m->b.g, NAME("%s.weight", name.text).text, 1, &head_dim)};
    if (in[0] < 0 || in[1] < 0) return GRAFT_NO_VALUE;
    return graft_graph_node(m->b.g, GRAFT_OP_RMS_NORM,
                            &(graft_attrs){.eps = EPS, .heads = m->a->heads}, in, 2,
                            GRAFT_DTYPE_NONE);
}

/* Queries, keys and values of a stream, by the layers of `part`. */
static void projected(const mmdit *m, const stream *s, const char *part, graft_vid h,
                      graft_vid qkv[3])
{
    const int32_t width = m->a->hidden;
    graft_vid all =
        graft_build_linear(&m->b, NAME("%s.%s.qkv", s->name.text, part), h, 3 * width, true);
    for (int i = 0; i < 3; i++) qkv[i] = graft_graph_slice(m->b.g, all, (int64_t)i * width, width);
    if (!m->a->qk_norm) return;
    qkv[0] = head_normed(m, NAME("%s.%s.ln_q", s->name.text, part), qkv[0]);
    qkv[1] = head_normed(m, NAME("%s.%s.ln_k", s->name.text, part), qkv[1]);
}

static graft_vid join(const mmdit *m, graft_vid a, graft_vid b)
{
    graft_vid in[2] = {a, b};
    if (a < 0 || b < 0) return GRAFT_NO_VALUE;
    return graft_graph_node(m->b.g, GRAFT_OP_JOIN, NULL, in, 2, GRAFT_DTYPE_NONE);
}

static graft_vid attention(const mmdit *m, const graft_vid qkv[3])
{
    return graft_build_attention(&m->b, qkv[0], qkv[1], qkv[2], m->a->heads, false);
}

/* Some tokens of all entries, dense. */
static graft_vid tokens(const mmdit *m, graft_vid v, int64_t begin, int64_t count)
{
    v = graft_graph_slice_tokens(m->b.g, v, begin, count);
    if (v < 0 || graft_gvalue_dense(&m->b.g->value[v])) return v;
    return graft_graph_node(m->b.g, GRAFT_OP_COPY, NULL, &v, 1, GRAFT_DTYPE_NONE);
}

/* ------------------------------------------------------------------ blocks */

static void mlp(const mmdit *m, stream *s)
{
    graft_vid v = normed(m, s, MLP_SHIFT);
    v = graft_build_linear(&m->b, below(s, "mlp.fc1"), v, m->a->mlp, true);
    v = graft_build_act(&m->b, v, GRAFT_ACT_GELU_TANH);
    v = graft_build_linear(&m->b, below(s, "mlp.fc2"), v, m->a->hidden, true);
    s->h = gated(m, s, MLP_GATE, v);
}

/* What an attention gave joins the stream. */
static void attended(const mmdit *m, stream *s, const char *part, int gate, graft_vid v)
{
    v = graft_build_linear(&m->b, NAME("%s.%s.proj", s->name.text, part), v, m->a->hidden, true);
    s->h = gated(m, s, gate, v);
}

/* The last block's text goes nowhere but into its attention. */
static void block(const mmdit *m, int i, stream *text, stream *picture)
{
    const graft_mmdit_arch *a = m->a;
    const bool last = i + 1 == a->depth, dual = i < a->dual;
    const int64_t words = graft_build_dim(&m->b, text->h, 1);
    const int64_t cells = graft_build_dim(&m->b, picture->h, 1);
    graft_vid of_text[3], of_picture[3], both[3], own[3];
    text->name = NAME("joint_blocks.%d.context_block", i);
    picture->name = NAME("joint_blocks.%d.x_block", i);
    modulate(m, text, last ? SCALE + 1 : CHUNKS);
    modulate(m, picture, dual ? DUAL_CHUNKS : CHUNKS);
    projected(m, text, "attn", normed(m, text, SHIFT), of_text);
    projected(m, picture, "attn", normed(m, picture, SHIFT), of_picture);
    if (dual) projected(m, picture, "attn2", normed(m, picture, CHUNKS + SHIFT), own);
    for (int k = 0; k < 3; k++) both[k] = join(m, of_text[k], of_picture[k]);
    graft_vid v = attention(m, both);
    attended(m, picture, "attn", GATE, tokens(m, v, words, cells));
    if (dual) attended(m, picture, "attn2", CHUNKS + GATE, attention(m, own));
    mlp(m, picture);
    if (last) return;
    attended(m, text, "attn", GATE, tokens(m, v, 0, words));
    mlp(m, text);
}

/* ------------------------------------------------------------------ in and out */

static graft_vid embedded(const mmdit *m, const char *name, graft_vid v)
{
    const int32_t width = m->a->hidden;
    v = graft_build_linear(&m->b, NAME("%s.mlp.0", name), v, width, true);
    v = graft_build_act(&m->b, v, GRAFT_ACT_SILU);
    return graft_build_linear(&m->b, NAME("%s.mlp.2", name), v, width, true);
}

static graft_vid conditioned(const mmdit *m, graft_vid t, graft_vid y)
{
    const graft_build *b = &m->b;
    if (t < 0) return t;
    t = graft_graph_node(b->g, GRAFT_OP_TIMESTEP, &(graft_attrs){.up_w = m->a->time_dim}, &t, 1,
                         GRAFT_F32);
    t = embedded(m, "t_embedder", graft_build_cast(b, t, b->act_dtype));
    y = embedded(m, "y_embedder", graft_build_cast(b, y, b->act_dtype));
    return graft_build_act(b, graft_build_add(b, t, y), GRAFT_ACT_SILU);
}

/* The latent's squares as tokens, with their places. */
static graft_vid patches(const mmdit *m, graft_vid x, int64_t rows, int64_t columns)
{
    const graft_mmdit_arch *a = m->a;
    const graft_build *b = &m->b;
    const int64_t dim[4] = {1, rows, columns, a->hidden};
    x = graft_build_to_nhwc(b, x, b->act_dtype);
    x = graft_build_conv(b, NAME("x_embedder.proj"), x,
                         (graft_conv_spec){a->hidden, a->patch, a->patch, {0, 0, 0, 0}});
    x = graft_build_add(b, x, graft_graph_weight_crop(b->g, "pos_embed", a->table, dim));
    return graft_graph_reshape(b->g, x, 3, (const int64_t[]){m->batch, rows * columns, a->hidden});
}

/* Tokens of (row, column, channel) each, back into the latent. */
static graft_vid unpatched(const mmdit *m, graft_vid x, int64_t rows, int64_t columns)
{
    const int64_t p = m->a->patch, c = m->a->channels, n = m->batch;
    x = graft_graph_reshape(m->b.g, x, 4, (const int64_t[]){n * rows, columns, p, p * c});
    x = graft_graph_permute(m->b.g, x, (const int32_t[4]){0, 2, 1, 3});
    if (x < 0) return x;
    x = graft_graph_node(m->b.g, GRAFT_OP_COPY, NULL, &x, 1, GRAFT_DTYPE_NONE);
    x = graft_graph_reshape(m->b.g, x, 4, (const int64_t[]){n, rows * p, columns * p, c});
    return graft_build_to_nchw(&m->b, x, GRAFT_F32);
}

static graft_vid final_layer(const mmdit *m, graft_vid h)
{
    const graft_mmdit_arch *a = m->a;
    stream s = {.name = NAME("final_layer"), .h = h};
    modulate(m, &s, SCALE + 1);
    return graft_build_linear(&m->b, below(&s, "linear"), normed(m, &s, SHIFT),
                              a->patch * a->patch * a->channels, true);
}

static void check_shape(graft_graph *g, const graft_mmdit_arch *a, const graft_unet_shape *s)
{
    if (s->height % a->patch || s->width % a->patch)
        graft_graph_fail(g, GRAFT_E_ARG,
                         "a latent of %lldx%lld: this transformer takes multiples of %d, which are "
                         "%d pixels",
                         (long long)s->width, (long long)s->height, a->patch, 8 * a->patch);
    if (s->height / a->patch > a->table || s->width / a->patch > a->table)
        graft_graph_fail(g, GRAFT_E_ARG,
                         "a latent of %lldx%lld: this transformer knows places for %d, which are "
                         "%d pixels a side",
                         (long long)s->width, (long long)s->height, a->table * a->patch,
                         8 * a->table * a->patch);
    bool grids = false;
    for (int i = 0; i < GRAFT_UNET_GRIDS; i++) grids |= s->grid[i].rows || s->grid[i].columns;
    if (s->perturbed || s->variant || s->cut || s->control || s->freeu || s->shrink.block || grids)
        graft_graph_fail(g, GRAFT_E_UNSUPPORTED, "a transformer has no blocks of a UNet to change");
}

graft_status graft_mmdit_build(const graft_mmdit_arch *a, const graft_unet_shape *shape,
                               graft_graph **out, graft_err *e)
{
    graft_graph *g = graft_graph_create();
    if (!g) return graft_fail_nomem(e, "transformer graph");
    mmdit m = {.b = {g, shape->act_dtype}, .a = a, .batch = shape->batch};
    const int64_t n = shape->batch;
    check_shape(g, a, shape);
    const int64_t rows = shape->height / a->patch, columns = shape->width / a->patch;
    graft_vid x = graft_graph_input(g, GRAFT_F32, 4,
                                    (int64_t[]){n, a->channels, shape->height, shape->width});
    graft_vid t = graft_graph_input(g, GRAFT_F32, 1, &n);
    graft_vid c = graft_graph_input(g, GRAFT_F32, 3, (int64_t[]){n, shape->tokens, a->context_dim});
    graft_vid y = graft_graph_input(g, GRAFT_F32, 2, (int64_t[]){n, a->pooled_dim});
    m.vec = conditioned(&m, t, y);
    stream picture = {.h = patches(&m, x, rows, columns)};
    c = graft_build_cast(&m.b, c, shape->act_dtype);
    stream text = {.h = graft_build_linear(&m.b, NAME("context_embedder"), c, a->hidden, true)};
    for (int i = 0; i < a->depth; i++) block(&m, i, &text, &picture);
    graft_graph_output(g, unpatched(&m, final_layer(&m, picture.h), rows, columns));
    graft_status st = graft_graph_status(g, e);
    if (st)
        graft_graph_destroy(g);
    else
        *out = g;
    return st;
}
