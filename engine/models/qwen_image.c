#include "engine/models/qwen_image.h"

#include "engine/models/stream.h"
#include "engine/models/transformer.h"

#define NAME(...) graft_name_make(__VA_ARGS__)
#define SIDE_MAX  (1 << 15) /* tokens, and of a prompt */

/* Where a stream's vectors have what. */
enum { SHIFT, SCALE, GATE, MLP_SHIFT, MLP_SCALE, MLP_GATE, VECTORS };

typedef struct qwen_image {
    graft_build b;
    const graft_qwen_image_arch *a;
    graft_vid vec;         /* SiLU of what the network is conditioned on, (N,hidden) */
    int64_t words;         /* tokens of the prompt, which are the first */
    int32_t rows, columns; /* of the picture's tokens */
} qwen_image;

/* What a stream's layers of attention are called below its block. */
typedef struct layers {
    const char *qkv[3], *norm[2], *out;
} layers;
static const layers of_text = {
    {"add_q_proj", "add_k_proj", "add_v_proj"}, {"norm_added_q", "norm_added_k"}, "to_add_out"};
static const layers of_picture = {{"to_q", "to_k", "to_v"}, {"norm_q", "norm_k"}, "to_out.0"};

static int64_t cells(const qwen_image *m)
{
    return (int64_t)m->rows * m->columns;
}

/* ------------------------------------------------------------------ places */

static graft_vid rotated(const qwen_image *m, graft_vid v, graft_rope_grid grid)
{
    grid.heads = m->a->heads;
    return graft_build_rope(&m->b, v, &grid);
}

/* Only differences of places count, so all are moved along each axis until none is below 0. */
static graft_vid turned_picture(const qwen_image *m, graft_vid v)
{
    return rotated(m, v,
                   (graft_rope_grid){.rows = m->rows,
                                     .columns = m->columns,
                                     .of_row = m->a->rope_dim,
                                     .of_column = m->a->rope_dim});
}

/* One axis after the other: words are a grid of one column, whose rows turn the axis' values. */
static graft_vid turned_text(const qwen_image *m, graft_vid v)
{
    const int32_t side = m->a->rope_dim, first = m->a->hidden / m->a->heads - 2 * side;
    const int32_t from = (m->rows > m->columns ? m->rows : m->columns) / 2;
    const struct {
        int32_t values, moved;
    } axis[] = {{first, 0}, {side, m->rows - m->rows / 2}, {side, m->columns - m->columns / 2}};
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

/* Queries, keys and values of block i's stream, the former two normed. */
static void projected(const qwen_image *m, int i, const layers *l, const graft_stream *s,
                      graft_vid qkv[3])
{
    const graft_name name = NAME("transformer_blocks.%d.attn", i);
    const graft_vid v = graft_stream_normed(&m->b, s, SHIFT);
    for (int k = 0; k < 3; k++)
        qkv[k] =
            graft_build_linear(&m->b, NAME("%s.%s", name.text, l->qkv[k]), v, m->a->hidden, true);
    for (int k = 0; k < 2; k++)
        qkv[k] = graft_stream_head_normed(&m->b, NAME("%s.%s.weight", name.text, l->norm[k]),
                                          qkv[k], m->a->heads);
}

/* What attention gave joins the stream, which then goes through its MLP. */
static void attended(const qwen_image *m, int i, const layers *l, graft_stream *s, graft_vid v)
{
    v = graft_build_linear(&m->b, NAME("transformer_blocks.%d.attn.%s", i, l->out), v, m->a->hidden,
                           true);
    s->h = graft_stream_gated(&m->b, s, GATE, v);
    v = graft_build_linear(&m->b, NAME("%s_mlp.net.0.proj", s->name.text),
                           graft_stream_normed(&m->b, s, MLP_SHIFT), m->a->mlp, true);
    v = graft_build_act(&m->b, v, GRAFT_ACT_GELU_TANH);
    v = graft_build_linear(&m->b, NAME("%s_mlp.net.2", s->name.text), v, m->a->hidden, true);
    s->h = graft_stream_gated(&m->b, s, MLP_GATE, v);
}

static void modulate(const qwen_image *m, graft_stream *s)
{
    graft_stream_modulate(&m->b, s, NAME("%s_mod.1", s->name.text), m->vec, VECTORS);
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

static void block(const qwen_image *m, int i, graft_stream *text, graft_stream *picture)
{
    graft_vid words[3], shown[3], both[3];
    text->name = NAME("transformer_blocks.%d.txt", i);
    picture->name = NAME("transformer_blocks.%d.img", i);
    modulate(m, text);
    modulate(m, picture);
    projected(m, i, &of_text, text, words);
    projected(m, i, &of_picture, picture, shown);
    for (int k = 0; k < 2; k++) {
        words[k] = turned_text(m, words[k]);
        shown[k] = turned_picture(m, shown[k]);
    }
    for (int k = 0; k < 3; k++) both[k] = graft_build_join(&m->b, words[k], shown[k]);
    graft_vid v = graft_build_attention(&m->b, both[0], both[1], both[2], m->a->heads, false);
    attended(m, i, &of_picture, picture, graft_stream_tokens(&m->b, v, m->words, cells(m)));
    if (i + 1 < m->a->depth)
        attended(m, i, &of_text, text, graft_stream_tokens(&m->b, v, 0, m->words));
    else
        unread(m, i, text);
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

graft_status graft_qwen_image_build(const graft_qwen_image_arch *a, const graft_unet_shape *shape,
                                    graft_graph **out, graft_err *e)
{
    graft_graph *g = graft_graph_create();
    if (!g) return graft_fail_nomem(e, "transformer graph");
    const int64_t n = shape->batch, h = shape->height, w = shape->width;
    qwen_image m = {.b = {g, shape->act_dtype}, .a = a, .words = shape->tokens};
    check_shape(g, a, shape);
    m.rows = (int32_t)(h / a->patch);
    m.columns = (int32_t)(w / a->patch);
    graft_vid x = graft_graph_input(g, GRAFT_F32, 4, (int64_t[]){n, a->channels, h, w});
    graft_vid t = graft_graph_input(g, GRAFT_F32, 1, &n);
    graft_vid c = graft_graph_input(g, GRAFT_F32, 3, (int64_t[]){n, m.words, a->context_dim});
    m.vec = conditioned(&m, t);
    x = graft_stream_plane_patches(&m.b, x, a->patch);
    graft_stream text = {.h = prompt(&m, c)};
    graft_stream picture = {.h = graft_build_linear(&m.b, NAME("img_in"), x, a->hidden, true)};
    for (int i = 0; i < a->depth; i++) block(&m, i, &text, &picture);
    x = final_layer(&m, picture.h);
    graft_graph_output(g, graft_stream_plane_unpatched(&m.b, x, m.rows, m.columns, a->patch));
    graft_status st = graft_graph_status(g, e);
    if (!st) {
        *out = g;
        return GRAFT_OK;
    }
    graft_graph_destroy(g);
    return st;
}
