#include "engine/models/transformers/qwen_image_blocks.h"

#define NAME(...) graft_name_make(__VA_ARGS__)

/* Where a stream's vectors have what. */
enum { SHIFT, SCALE, GATE, MLP_SHIFT, MLP_SCALE, MLP_GATE, VECTORS };

/* What a stream's layers of attention are called below its block. */
typedef struct layers {
    const char *qkv[3], *norm[2], *out;
} layers;
static const layers of_text = {
    {"add_q_proj", "add_k_proj", "add_v_proj"}, {"norm_added_q", "norm_added_k"}, "to_add_out"};
static const layers of_picture = {{"to_q", "to_k", "to_v"}, {"norm_q", "norm_k"}, "to_out.0"};

int64_t graft_qwen_image_cells(const graft_qwen_image_blocks *m, int picture)
{
    const int64_t cells = (int64_t)m->of[picture].rows * m->of[picture].columns;
    return picture ? cells : cells * graft_layers_of(m->layers);
}

/* ------------------------------------------------------------------ places */

static graft_vid rotated(const graft_qwen_image_blocks *m, graft_vid v, graft_rope_grid grid)
{
    grid.heads = m->a->heads;
    return graft_build_rope(&m->b, v, &grid);
}

/* Tokens in front of the middle. */
static graft_grid before_middle(graft_grid of)
{
    return (graft_grid){of.rows - of.rows / 2, of.columns - of.columns / 2};
}

void graft_qwen_image_place(graft_qwen_image_blocks *m)
{
    for (int i = 0; i < m->n_pictures; i++) {
        const graft_grid before = before_middle(m->of[i]);
        if (before.rows > m->middle.rows) m->middle.rows = before.rows;
        if (before.columns > m->middle.columns) m->middle.columns = before.columns;
    }
}

/* How far the first axis is moved: the picture that is taken apart stands at -1. */
static int32_t before_first(const graft_qwen_image_blocks *m)
{
    return m->a->layered ? 1 : 0;
}

/* A picture, or a layer of one, of which so many tokens are behind it. */
static graft_vid turned_picture(const graft_qwen_image_blocks *m, graft_vid v, int i, int32_t frame,
                                int64_t behind)
{
    const graft_grid before = before_middle(m->of[i]);
    return rotated(m, v,
                   (graft_rope_grid){.rows = m->of[i].rows,
                                     .columns = m->of[i].columns,
                                     .behind = (int32_t)behind,
                                     .top = m->middle.rows - before.rows,
                                     .left = m->middle.columns - before.columns,
                                     .frame = frame,
                                     .of_row = m->a->rope_dim,
                                     .of_column = m->a->rope_dim});
}

/* Only differences of places count, so all are moved along each axis until none is below 0. The
 * last picture's tokens are the last. */
static graft_vid turned_pictures(const graft_qwen_image_blocks *m, graft_vid v)
{
    const int32_t first = before_first(m), count = graft_layers_of(m->layers);
    int64_t behind = 0;
    for (int i = m->n_pictures - 1; i > 0; i--) {
        v = turned_picture(m, v, i, first ? 0 : i, behind);
        behind += graft_qwen_image_cells(m, i);
    }
    for (int32_t l = count - 1; l >= 0; l--) {
        v = turned_picture(m, v, 0, first + l, behind);
        behind += graft_qwen_image_cells(m, 0) / count;
    }
    return v;
}

/* One axis after the other: words are a grid of one column, whose rows turn the axis' values. */
static graft_vid turned_text(const graft_qwen_image_blocks *m, graft_vid v)
{
    const int32_t side = m->a->rope_dim, first = m->a->hidden / m->a->heads - 2 * side;
    int32_t from = 0;
    for (int i = 0; i < m->n_pictures; i++) {
        const int32_t rows = m->of[i].rows, columns = m->of[i].columns;
        const int32_t half = (rows > columns ? rows : columns) / 2;
        if (half > from) from = half;
    }
    if (m->a->layered && graft_layers_of(m->layers) > from) from = graft_layers_of(m->layers);
    const struct {
        int32_t values, moved;
    } axis[] = {{first, before_first(m)}, {side, m->middle.rows}, {side, m->middle.columns}};
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
static void projected(const graft_qwen_image_blocks *m, int i, const layers *l, graft_vid v,
                      graft_vid qkv[3])
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
static graft_vid put_out(const graft_qwen_image_blocks *m, int i, const layers *l, graft_vid v)
{
    return graft_build_linear(&m->b, NAME("transformer_blocks.%d.attn.%s", i, l->out), v,
                              m->a->hidden, true);
}

static graft_vid mlp(const graft_qwen_image_blocks *m, graft_name stream, graft_vid v)
{
    v = graft_build_linear(&m->b, NAME("%s_mlp.net.0.proj", stream.text), v, m->a->mlp, true);
    v = graft_build_act(&m->b, v, GRAFT_ACT_GELU_TANH);
    return graft_build_linear(&m->b, NAME("%s_mlp.net.2", stream.text), v, m->a->hidden, true);
}

static graft_vid normed(const graft_qwen_image_blocks *m, const graft_qwen_image_pictures *p,
                        int shift)
{
    const graft_vid own = graft_stream_normed(&m->b, &p->own, shift);
    if (p->clean.h < 0) return own;
    return graft_build_join(&m->b, own, graft_stream_normed(&m->b, &p->clean, shift));
}

static void gate(const graft_qwen_image_blocks *m, graft_qwen_image_pictures *p, int vector,
                 graft_vid v)
{
    const int64_t own = graft_qwen_image_cells(m, 0), all = graft_build_dim(&m->b, v, 1);
    if (p->clean.h < 0) {
        p->own.h = graft_stream_gated(&m->b, &p->own, vector, v);
        return;
    }
    p->own.h = graft_stream_gated(&m->b, &p->own, vector, graft_stream_tokens(&m->b, v, 0, own));
    p->clean.h =
        graft_stream_gated(&m->b, &p->clean, vector, graft_stream_tokens(&m->b, v, own, all - own));
}

static void join_text(const graft_qwen_image_blocks *m, int i, graft_stream *s, graft_vid v)
{
    s->h = graft_stream_gated(&m->b, s, GATE, put_out(m, i, &of_text, v));
    v = mlp(m, s->name, graft_stream_normed(&m->b, s, MLP_SHIFT));
    s->h = graft_stream_gated(&m->b, s, MLP_GATE, v);
}

static void join_pictures(const graft_qwen_image_blocks *m, int i, graft_qwen_image_pictures *p,
                          graft_vid v)
{
    gate(m, p, GATE, put_out(m, i, &of_picture, v));
    gate(m, p, MLP_GATE, mlp(m, p->own.name, normed(m, p, MLP_SHIFT)));
}

static void modulate(const graft_qwen_image_blocks *m, graft_stream *s)
{
    graft_stream_modulate(&m->b, s, NAME("%s_mod.1", s->name.text), m->vec, VECTORS);
}

/* One layer makes the vectors of both, from rows that lie one behind the other. */
static void modulate_pictures(const graft_qwen_image_blocks *m, graft_qwen_image_pictures *p)
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
static void leave_references(const graft_qwen_image_blocks *m, graft_qwen_image_pictures *p)
{
    if (p->clean.h < 0 && m->n_pictures > 1)
        p->own.h = graft_stream_tokens(&m->b, p->own.h, 0, graft_qwen_image_cells(m, 0));
    p->clean.h = GRAFT_NO_VALUE;
}

/* Behind the last block nobody reads the prompt: its layers there are named, so that a file is held
 * against them, and not computed. */
static void unread(const graft_qwen_image_blocks *m, int i, const graft_stream *text)
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

void graft_qwen_image_block(const graft_qwen_image_blocks *m, int i, graft_stream *text,
                            graft_qwen_image_pictures *p)
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
    for (int k = 0; k < 3; k++) both[k] = graft_build_join(&m->b, shown[k], words[k]);
    graft_vid v = graft_build_attention_counted(&m->b, both, m->count, m->a->heads);
    if (last) leave_references(m, p);
    join_pictures(m, i, p,
                  graft_stream_tokens(&m->b, v, 0, last ? graft_qwen_image_cells(m, 0) : all));
    if (last)
        unread(m, i, text);
    else
        join_text(m, i, text, graft_stream_tokens(&m->b, v, all, m->words));
}

/* ------------------------------------------------------------------ in */

/* What Qwen-Image-Layered is told besides, of each of the timesteps t (N): row 0, that its latents
 * have an alpha channel. Row 1, of those without, is for none of ours. */
static graft_vid told_more(const graft_qwen_image_blocks *m, graft_vid t)
{
    const graft_build *b = &m->b;
    const int64_t table[2] = {2, m->a->hidden};
    const graft_vid in[2] = {
        graft_build_cast(b, graft_build_scale(b, t, 0, 0), GRAFT_I32),
        graft_graph_weight(b->g, "time_text_embed.addition_t_embedding.weight", 2, table)};
    if (in[0] < 0 || in[1] < 0) return GRAFT_NO_VALUE;
    return graft_graph_node(b->g, GRAFT_OP_EMBEDDING, NULL, in, 2, b->act_dtype);
}

graft_vid graft_qwen_image_conditioned(const graft_qwen_image_blocks *m, graft_vid t)
{
    static const char name[] = "time_text_embed.timestep_embedder";
    const graft_build *b = &m->b;
    graft_vid v = graft_build_cast(b, graft_build_waves(b, t, m->a->time_dim), b->act_dtype);
    v = graft_build_linear(b, NAME("%s.linear_1", name), v, m->a->hidden, true);
    v = graft_build_act(b, v, GRAFT_ACT_SILU);
    v = graft_build_linear(b, NAME("%s.linear_2", name), v, m->a->hidden, true);
    if (m->a->layered) v = graft_build_add(b, v, told_more(m, t));
    return graft_build_act(b, v, GRAFT_ACT_SILU);
}

graft_vid graft_qwen_image_count(const graft_qwen_image_blocks *m, graft_vid y)
{
    int64_t cells = 0;
    for (int i = 0; i < m->n_pictures; i++) cells += graft_qwen_image_cells(m, i);
    return graft_stream_count(&m->b, y, cells);
}

graft_vid graft_qwen_image_prompt(const graft_qwen_image_blocks *m, graft_vid context)
{
    context = graft_stream_head_normed(&m->b, NAME("txt_norm.weight"), context, 1);
    context = graft_build_cast(&m->b, context, m->b.act_dtype);
    return graft_build_linear(&m->b, NAME("txt_in"), context, m->a->hidden, true);
}
