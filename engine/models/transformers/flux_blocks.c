#include "engine/models/transformers/flux_blocks.h"

#include "engine/models/transformers/chroma.h"

#define NAME(...) graft_name_make(__VA_ARGS__)

/* Where a stream's vectors have what; blocks of one stream have the first three. */
enum { SHIFT, SCALE, GATE, MLP_SHIFT, MLP_SCALE, MLP_GATE, VECTORS };

/* ------------------------------------------------------------------ attention */

/* Queries, keys and values, the first three parts of `all`; the former two normed, by weights below
 * `norm`. */
static void split(const graft_flux_blocks *m, graft_name norm, graft_vid all, graft_vid qkv[3])
{
    const int32_t hidden = m->a->hidden, heads = m->a->heads;
    for (int i = 0; i < 3; i++)
        qkv[i] = graft_graph_slice(m->b.g, all, (int64_t)i * hidden, hidden);
    qkv[0] = graft_stream_head_normed(&m->b, NAME("%s.query_norm.scale", norm.text), qkv[0], heads);
    qkv[1] = graft_stream_head_normed(&m->b, NAME("%s.key_norm.scale", norm.text), qkv[1], heads);
}

/* The prompt's words along the rows and the columns of places, one after the other: each is a grid
 * of one column, whose rows turn the axis' values. */
static graft_vid turned_words(const graft_flux_blocks *m, graft_vid v)
{
    const int64_t behind = v < 0 ? 0 : graft_build_dim(&m->b, v, 1) - m->words;
    for (int32_t last = m->a->rope_dim; last >= 0 && v >= 0; last -= m->a->rope_dim) {
        const graft_rope_grid row = {.heads = m->a->heads,
                                     .rows = (int32_t)m->words,
                                     .columns = 1,
                                     .behind = (int32_t)behind,
                                     .of_row = m->a->rope_dim,
                                     .last = last};
        v = graft_build_rope(&m->b, v, &row);
    }
    return v;
}

/* Each picture is an operator over all tokens. */
static graft_vid turned(const graft_flux_blocks *m, graft_vid v)
{
    int64_t behind = m->behind;
    if (m->words) v = turned_words(m, v);
    for (int i = m->n_pictures - 1; i >= 0 && v >= 0; i--) {
        const graft_flux_picture *p = &m->of[i];
        const graft_rope_grid grid = {.heads = m->a->heads,
                                      .rows = p->rows,
                                      .columns = p->columns,
                                      .behind = (int32_t)behind,
                                      .top = p->top,
                                      .left = p->left,
                                      .frame = p->frame,
                                      .of_row = m->a->rope_dim,
                                      .of_column = m->a->rope_dim};
        v = graft_build_rope(&m->b, v, &grid);
        behind += graft_flux_cells(p);
    }
    return v;
}

static graft_vid attention(const graft_flux_blocks *m, const graft_vid qkv[3])
{
    const graft_vid in[3] = {turned(m, qkv[0]), turned(m, qkv[1]), qkv[2]};
    if (m->behind) return graft_build_attention_counted(&m->b, in, m->count, m->a->heads);
    return graft_build_attention(&m->b, in[0], in[1], in[2], m->a->heads, false);
}

graft_vid graft_flux_joined(const graft_flux_blocks *m, graft_vid text, graft_vid picture)
{
    return m->behind ? graft_build_join(&m->b, picture, text)
                     : graft_build_join(&m->b, text, picture);
}

/* ------------------------------------------------------------------ blocks */

void graft_flux_modulate(const graft_flux_blocks *m, graft_stream *s, graft_name layer, int first,
                         int vectors)
{
    if (m->a->approximator)
        graft_stream_modulate_given(&m->b, s, m->vec, first, vectors);
    else
        graft_stream_modulate(&m->b, s, layer, m->vec, vectors);
}

static graft_name of(const graft_stream *s, const char *part)
{
    return NAME("%s_%s", s->name.text, part);
}

/* `first`: where the stream's vectors begin, if an approximator makes them. */
static void projected(const graft_flux_blocks *m, graft_stream *s, int first, graft_vid qkv[3])
{
    graft_flux_modulate(m, s, of(s, "mod.lin"), first, VECTORS);
    graft_vid all = graft_build_linear(
        &m->b, of(s, "attn.qkv"), graft_stream_normed(&m->b, s, SHIFT), 3 * m->a->hidden, true);
    split(m, of(s, "attn.norm"), all, qkv);
}

/* SwiGLU. */
static graft_vid gated(const graft_flux_blocks *m, graft_vid gate, graft_vid v)
{
    return graft_build_mul(&m->b, graft_build_act(&m->b, gate, GRAFT_ACT_SILU), v);
}

static graft_vid mlp(const graft_flux_blocks *m, const graft_stream *s, graft_vid v)
{
    const int32_t hidden = m->a->hidden, wide = m->a->mlp;
    if (m->a->gated) {
        const graft_vid gate = graft_build_linear(&m->b, of(s, "mlp.gate_proj"), v, wide, true);
        v = graft_build_linear(&m->b, of(s, "mlp.up_proj"), v, wide, true);
        return graft_build_linear(&m->b, of(s, "mlp.down_proj"), gated(m, gate, v), hidden, true);
    }
    v = graft_build_linear(&m->b, of(s, "mlp.0"), v, wide, true);
    v = graft_build_act(&m->b, v, GRAFT_ACT_GELU_TANH);
    return graft_build_linear(&m->b, of(s, "mlp.2"), v, hidden, true);
}

/* What attention gave joins the stream, which then goes through its MLP. */
static void attended(const graft_flux_blocks *m, graft_stream *s, graft_vid v)
{
    v = graft_build_linear(&m->b, of(s, "attn.proj"), v, m->a->hidden, true);
    s->h = graft_stream_gated(&m->b, s, GATE, v);
    v = mlp(m, s, graft_stream_normed(&m->b, s, MLP_SHIFT));
    s->h = graft_stream_gated(&m->b, s, MLP_GATE, v);
}

void graft_flux_double_block(const graft_flux_blocks *m, int i, graft_stream *text,
                             graft_stream *picture)
{
    const int64_t words = graft_build_dim(&m->b, text->h, 1);
    const int64_t cells = graft_build_dim(&m->b, picture->h, 1);
    graft_vid of_text[3], of_picture[3], both[3];
    text->name = NAME("double_blocks.%d.txt", i);
    picture->name = NAME("double_blocks.%d.img", i);
    projected(m, text, graft_chroma_of_text(m->a, i), of_text);
    projected(m, picture, graft_chroma_of_picture(m->a, i), of_picture);
    for (int k = 0; k < 3; k++) both[k] = graft_flux_joined(m, of_text[k], of_picture[k]);
    graft_vid v = attention(m, both);
    attended(m, picture, graft_stream_tokens(&m->b, v, m->behind ? 0 : words, cells));
    attended(m, text, graft_stream_tokens(&m->b, v, m->behind ? cells : 0, words));
}

/* What the MLP of a block of one stream makes of what stands behind queries, keys and values: its
 * numbers, then their gates. */
static graft_vid inner(const graft_flux_blocks *m, graft_vid all)
{
    const int64_t from = 3 * (int64_t)m->a->hidden, wide = m->a->mlp;
    const graft_vid v = graft_graph_slice(m->b.g, all, from, wide);
    return m->a->gated ? gated(m, graft_graph_slice(m->b.g, all, from + wide, wide), v)
                       : graft_build_act(&m->b, v, GRAFT_ACT_GELU_TANH);
}

void graft_flux_single_block(const graft_flux_blocks *m, int i, graft_stream *s)
{
    const graft_build *b = &m->b;
    const int32_t hidden = m->a->hidden;
    graft_vid qkv[3];
    s->name = NAME("single_blocks.%d", i);
    graft_flux_modulate(m, s, NAME("%s.modulation.lin", s->name.text), graft_chroma_of_single(i),
                        GATE + 1);
    graft_vid all =
        graft_build_linear(b, NAME("%s.linear1", s->name.text), graft_stream_normed(b, s, SHIFT),
                           3 * hidden + (1 + m->a->gated) * m->a->mlp, true);
    split(m, NAME("%s.norm", s->name.text), all, qkv);
    graft_vid v = graft_build_concat(b, attention(m, qkv), inner(m, all));
    v = graft_build_linear(b, NAME("%s.linear2", s->name.text), v, hidden, true);
    s->h = graft_stream_gated(b, s, GATE, v);
}

/* ------------------------------------------------------------------ in and out */

static graft_vid embedded(const graft_flux_blocks *m, const char *name, graft_vid v)
{
    const graft_build *b = &m->b;
    v = graft_build_cast(b, v, b->act_dtype);
    v = graft_build_linear(b, NAME("%s.in_layer", name), v, m->a->hidden, true);
    v = graft_build_act(b, v, GRAFT_ACT_SILU);
    return graft_build_linear(b, NAME("%s.out_layer", name), v, m->a->hidden, true);
}

/* A number (N), of 0 to 1000, as waves. */
static graft_vid waves(const graft_flux_blocks *m, graft_vid t)
{
    return graft_build_waves(&m->b, t, m->a->time_dim);
}

/* The last number of y (N), a thousand times. */
static graft_vid guidance(const graft_flux_blocks *m, graft_vid y)
{
    const int64_t n = graft_build_dim(&m->b, y, 0);
    const graft_vid v = graft_graph_slice(m->b.g, y, m->a->pooled_dim, 1);
    return graft_graph_reshape(m->b.g, graft_build_scale(&m->b, v, 1000, 0), 1, &n);
}

graft_vid graft_flux_conditioned(const graft_flux_blocks *m, graft_vid t, graft_vid y)
{
    const graft_build *b = &m->b;
    if (m->a->approximator) return graft_chroma_build(b, m->a, t);
    graft_vid v = embedded(m, "time_in", waves(m, t));
    if (m->a->guidance && !m->untold)
        v = graft_build_add(b, v, embedded(m, "guidance_in", waves(m, guidance(m, y))));
    if (!m->a->pooled_dim) return graft_build_act(b, v, GRAFT_ACT_SILU);
    if (graft_build_dim(b, y, 1) > m->a->pooled_dim)
        y = graft_graph_slice(b->g, y, 0, m->a->pooled_dim);
    y = graft_build_dense(b, y, b->act_dtype);
    return graft_build_act(b, graft_build_add(b, v, embedded(m, "vector_in", y)), GRAFT_ACT_SILU);
}
