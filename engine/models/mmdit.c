#include "engine/models/mmdit.h"

#include "engine/models/stream.h"

#define NAME(...) graft_name_make(__VA_ARGS__)

/* Where a stream's modulation has what; a second attention's stand behind the six. */
enum { SHIFT, SCALE, GATE, MLP_SHIFT, MLP_SCALE, MLP_GATE, CHUNKS, DUAL_CHUNKS = CHUNKS + 3 };

typedef struct mmdit {
    graft_build b;
    const graft_mmdit_arch *a;
    graft_vid vec; /* SiLU of what the timestep and the pooled prompt give, (batch,hidden) */
    int64_t batch;
} mmdit;

static graft_name below(const graft_stream *s, const char *part)
{
    return NAME("%s.%s", s->name.text, part);
}

static void modulate(const mmdit *m, graft_stream *s, int chunks)
{
    graft_stream_modulate(&m->b, s, below(s, "adaLN_modulation.1"), m->vec, chunks);
}

/* ------------------------------------------------------------------ attention */

/* Queries, keys and values of a stream, by the layers of `part`. */
static void projected(const mmdit *m, const graft_stream *s, const char *part, graft_vid h,
                      graft_vid qkv[3])
{
    const int32_t width = m->a->hidden;
    graft_vid all =
        graft_build_linear(&m->b, NAME("%s.%s.qkv", s->name.text, part), h, 3 * width, true);
    for (int i = 0; i < 3; i++) qkv[i] = graft_graph_slice(m->b.g, all, (int64_t)i * width, width);
    if (!m->a->qk_norm) return;
    qkv[0] = graft_stream_head_normed(&m->b, NAME("%s.%s.ln_q.weight", s->name.text, part), qkv[0],
                                      m->a->heads);
    qkv[1] = graft_stream_head_normed(&m->b, NAME("%s.%s.ln_k.weight", s->name.text, part), qkv[1],
                                      m->a->heads);
}

static graft_vid attention(const mmdit *m, const graft_vid qkv[3])
{
    return graft_build_attention(&m->b, qkv[0], qkv[1], qkv[2], m->a->heads, false);
}

/* ------------------------------------------------------------------ blocks */

static void mlp(const mmdit *m, graft_stream *s)
{
    graft_vid v = graft_stream_normed(&m->b, s, MLP_SHIFT);
    v = graft_build_linear(&m->b, below(s, "mlp.fc1"), v, m->a->mlp, true);
    v = graft_build_act(&m->b, v, GRAFT_ACT_GELU_TANH);
    v = graft_build_linear(&m->b, below(s, "mlp.fc2"), v, m->a->hidden, true);
    s->h = graft_stream_gated(&m->b, s, MLP_GATE, v);
}

/* What an attention gave joins the stream. */
static void attended(const mmdit *m, graft_stream *s, const char *part, int gate, graft_vid v)
{
    v = graft_build_linear(&m->b, NAME("%s.%s.proj", s->name.text, part), v, m->a->hidden, true);
    s->h = graft_stream_gated(&m->b, s, gate, v);
}

/* The last block's text goes nowhere but into its attention. */
static void block(const mmdit *m, int i, graft_stream *text, graft_stream *picture)
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
    projected(m, text, "attn", graft_stream_normed(&m->b, text, SHIFT), of_text);
    projected(m, picture, "attn", graft_stream_normed(&m->b, picture, SHIFT), of_picture);
    if (dual)
        projected(m, picture, "attn2", graft_stream_normed(&m->b, picture, CHUNKS + SHIFT), own);
    for (int k = 0; k < 3; k++) both[k] = graft_stream_join(&m->b, of_text[k], of_picture[k]);
    graft_vid v = attention(m, both);
    attended(m, picture, "attn", GATE, graft_stream_tokens(&m->b, v, words, cells));
    if (dual) attended(m, picture, "attn2", CHUNKS + GATE, attention(m, own));
    mlp(m, picture);
    if (last) return;
    attended(m, text, "attn", GATE, graft_stream_tokens(&m->b, v, 0, words));
    mlp(m, text);
}

/* ------------------------------------------------------------------ rows that skip blocks */

/* (a,T,C) and (b,T,C) to (a + b,T,C). */
static graft_vid below_each_other(const mmdit *m, graft_vid a, graft_vid b)
{
    if (a < 0 || b < 0) return GRAFT_NO_VALUE;
    const int64_t t = graft_build_dim(&m->b, a, 1), c = graft_build_dim(&m->b, a, 2);
    const int64_t of_a = graft_build_dim(&m->b, a, 0), of_b = graft_build_dim(&m->b, b, 0);
    a = graft_graph_reshape(m->b.g, a, 3, (const int64_t[]){1, of_a * t, c});
    b = graft_graph_reshape(m->b.g, b, 3, (const int64_t[]){1, of_b * t, c});
    return graft_graph_reshape(m->b.g, graft_stream_join(&m->b, a, b), 3,
                               (const int64_t[]){of_a + of_b, t, c});
}

/* (N,C) with its first rows once more behind it. */
static graft_vid repeated(const mmdit *m, graft_vid v, int64_t again)
{
    const int64_t n = graft_build_dim(&m->b, v, 0), c = graft_build_dim(&m->b, v, 1);
    v = graft_graph_reshape(m->b.g, v, 3, (const int64_t[]){n, 1, c});
    v = below_each_other(m, v, graft_graph_slice_rows(m->b.g, v, 0, again));
    return graft_graph_reshape(m->b.g, v, 2, (const int64_t[]){n + again, c});
}

/* The network's state where some rows are computed twice. `again`: those that left blocks out,
 * apart from the others where they just did (their h is not GRAFT_NO_VALUE), else behind them in
 * `text` and `picture` once `parted`. */
typedef struct row_state {
    graft_stream text, picture, text_again, picture_again;
    graft_vid vec, vec_all; /* for the plain rows, and for all */
    int64_t plain, again;
    bool parted;
} row_state;

static void take_again(const mmdit *m, row_state *r, int64_t from)
{
    r->text_again.h = graft_graph_slice_rows(m->b.g, r->text.h, from, r->again);
    r->picture_again.h = graft_graph_slice_rows(m->b.g, r->picture.h, from, r->again);
}

/* The plain rows alone go on; the others stay what they are. */
static void part(const mmdit *m, row_state *r)
{
    if (r->picture_again.h >= 0) return;
    take_again(m, r, r->parted ? r->plain : 0);
    if (r->parted) {
        r->text.h = graft_graph_slice_rows(m->b.g, r->text.h, 0, r->plain);
        r->picture.h = graft_graph_slice_rows(m->b.g, r->picture.h, 0, r->plain);
    }
    r->parted = true;
}

static void unite(const mmdit *m, row_state *r)
{
    if (r->picture_again.h < 0) return;
    r->text.h = below_each_other(m, r->text.h, r->text_again.h);
    r->picture.h = below_each_other(m, r->picture.h, r->picture_again.h);
    r->text_again.h = r->picture_again.h = GRAFT_NO_VALUE;
}

static void all_blocks(mmdit *m, row_state *r, uint64_t skip)
{
    for (int i = 0; i < m->a->depth; i++) {
        bool skipped = r->again && i < 64 && skip >> i & 1;
        if (skipped)
            part(m, r);
        else
            unite(m, r);
        bool all = r->parted && !skipped;
        m->vec = all ? r->vec_all : r->vec;
        m->batch = all ? r->plain + r->again : r->plain;
        block(m, i, &r->text, &r->picture);
    }
    unite(m, r);
    m->vec = r->parted ? r->vec_all : r->vec;
    m->batch = r->parted ? r->plain + r->again : r->plain;
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

static graft_vid final_layer(const mmdit *m, graft_vid h)
{
    const graft_mmdit_arch *a = m->a;
    graft_stream s = {.name = NAME("final_layer"), .h = h};
    modulate(m, &s, SCALE + 1);
    return graft_build_linear(&m->b, below(&s, "linear"), graft_stream_normed(&m->b, &s, SHIFT),
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
    uint64_t known = a->depth < 64 ? ((uint64_t)1 << a->depth) - 1 : UINT64_MAX;
    if (s->perturbed < 0 || s->perturbed > s->batch || (s->perturbed && !(s->skip & known)))
        graft_graph_fail(g, GRAFT_E_ARG, "%lld of %lld rows cannot skip such blocks",
                         (long long)s->perturbed, (long long)s->batch);
    bool grids = false;
    for (int i = 0; i < GRAFT_UNET_GRIDS; i++) grids |= s->grid[i].rows || s->grid[i].columns;
    if (s->variant || s->cut || s->control || s->freeu || s->shrink.block || grids)
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
    const int64_t high = shape->height / a->patch, wide = shape->width / a->patch;
    graft_vid x = graft_graph_input(g, GRAFT_F32, 4,
                                    (int64_t[]){n, a->channels, shape->height, shape->width});
    graft_vid t = graft_graph_input(g, GRAFT_F32, 1, &n);
    graft_vid c = graft_graph_input(g, GRAFT_F32, 3, (int64_t[]){n, shape->tokens, a->context_dim});
    graft_vid y = graft_graph_input(g, GRAFT_F32, 2, (int64_t[]){n, a->pooled_dim});
    c = graft_build_cast(&m.b, c, shape->act_dtype);
    row_state r = {.text.h = graft_build_linear(&m.b, NAME("context_embedder"), c, a->hidden, true),
                   .picture.h = patches(&m, x, high, wide),
                   .text_again.h = GRAFT_NO_VALUE,
                   .picture_again.h = GRAFT_NO_VALUE,
                   .vec = conditioned(&m, t, y),
                   .plain = n,
                   .again = shape->perturbed};
    r.vec_all = r.again ? repeated(&m, r.vec, r.again) : r.vec;
    all_blocks(&m, &r, shape->skip);
    graft_graph_output(
        g, graft_stream_unpatched(&m.b, final_layer(&m, r.picture.h), high, wide, a->patch));
    graft_status st = graft_graph_status(g, e);
    if (st)
        graft_graph_destroy(g);
    else
        *out = g;
    return st;
}
