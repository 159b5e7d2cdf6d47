#include "engine/models/transformers/mmdit_blocks.h"

#define NAME(...) graft_name_make(__VA_ARGS__)

/* Where a stream's modulation has what; a second attention's stand behind the six. */
enum { SHIFT, SCALE, GATE, MLP_SHIFT, MLP_SCALE, MLP_GATE, CHUNKS, DUAL_CHUNKS = CHUNKS + 3 };

static graft_name below(const graft_stream *s, const char *part)
{
    return NAME("%s.%s", s->name.text, part);
}

static void modulate(const graft_mmdit_blocks *m, graft_stream *s, int chunks)
{
    graft_stream_modulate(&m->b, s, below(s, "adaLN_modulation.1"), m->vec, chunks);
}

/* ------------------------------------------------------------------ attention */

/* Queries, keys and values of a stream, by the layers of `part`. */
static void projected(const graft_mmdit_blocks *m, const graft_stream *s, const char *part,
                      graft_vid h, graft_vid qkv[3])
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

static graft_vid attention(const graft_mmdit_blocks *m, const graft_vid qkv[3])
{
    return graft_build_attention(&m->b, qkv[0], qkv[1], qkv[2], m->a->heads, false);
}

/* Of both streams. */
static graft_vid joint_attention(const graft_mmdit_blocks *m, const graft_vid of_text[3],
                                 const graft_vid of_picture[3])
{
    graft_vid both[3];
    for (int k = 0; k < 3; k++)
        both[k] = m->counts ? graft_build_join(&m->b, of_picture[k], of_text[k])
                            : graft_build_join(&m->b, of_text[k], of_picture[k]);
    return m->counts ? graft_build_attention_counted(&m->b, both, m->count, m->a->heads)
                     : attention(m, both);
}

/* ------------------------------------------------------------------ blocks */

static void mlp(const graft_mmdit_blocks *m, graft_stream *s)
{
    graft_vid v = graft_stream_normed(&m->b, s, MLP_SHIFT);
    v = graft_build_linear(&m->b, below(s, "mlp.fc1"), v, m->a->mlp, true);
    v = graft_build_act(&m->b, v, GRAFT_ACT_GELU_TANH);
    v = graft_build_linear(&m->b, below(s, "mlp.fc2"), v, m->a->hidden, true);
    s->h = graft_stream_gated(&m->b, s, MLP_GATE, v);
}

/* What an attention gave joins the stream. */
static void attended(const graft_mmdit_blocks *m, graft_stream *s, const char *part, int gate,
                     graft_vid v)
{
    v = graft_build_linear(&m->b, NAME("%s.%s.proj", s->name.text, part), v, m->a->hidden, true);
    s->h = graft_stream_gated(&m->b, s, gate, v);
}

void graft_mmdit_block(const graft_mmdit_blocks *m, int i, bool last, graft_stream *text,
                       graft_stream *picture)
{
    const bool dual = i < m->a->dual;
    const int64_t words = graft_build_dim(&m->b, text->h, 1);
    const int64_t cells = graft_build_dim(&m->b, picture->h, 1);
    graft_vid of_text[3], of_picture[3], own[3];
    text->name = NAME("joint_blocks.%d.context_block", i);
    picture->name = NAME("joint_blocks.%d.x_block", i);
    modulate(m, text, last ? SCALE + 1 : CHUNKS);
    modulate(m, picture, dual ? DUAL_CHUNKS : CHUNKS);
    projected(m, text, "attn", graft_stream_normed(&m->b, text, SHIFT), of_text);
    projected(m, picture, "attn", graft_stream_normed(&m->b, picture, SHIFT), of_picture);
    if (dual)
        projected(m, picture, "attn2", graft_stream_normed(&m->b, picture, CHUNKS + SHIFT), own);
    graft_vid v = joint_attention(m, of_text, of_picture);
    attended(m, picture, "attn", GATE, graft_stream_tokens(&m->b, v, m->counts ? 0 : words, cells));
    if (dual) attended(m, picture, "attn2", CHUNKS + GATE, attention(m, own));
    mlp(m, picture);
    if (last) return;
    attended(m, text, "attn", GATE, graft_stream_tokens(&m->b, v, m->counts ? cells : 0, words));
    mlp(m, text);
}

void graft_mmdit_single_block(const graft_mmdit_blocks *m, int i, graft_stream *picture)
{
    graft_vid own[3];
    picture->name = NAME("joint_blocks.%d.x_block", i);
    modulate(m, picture, CHUNKS);
    projected(m, picture, "attn", graft_stream_normed(&m->b, picture, SHIFT), own);
    attended(m, picture, "attn", GATE, attention(m, own));
    mlp(m, picture);
}

/* ------------------------------------------------------------------ in and out */

static graft_vid embedded(const graft_mmdit_blocks *m, const char *name, graft_vid v)
{
    const int32_t width = m->a->hidden;
    v = graft_build_linear(&m->b, NAME("%s.mlp.0", name), v, width, true);
    v = graft_build_act(&m->b, v, GRAFT_ACT_SILU);
    return graft_build_linear(&m->b, NAME("%s.mlp.2", name), v, width, true);
}

graft_vid graft_mmdit_conditioned(const graft_mmdit_blocks *m, graft_vid t, graft_vid y)
{
    const graft_build *b = &m->b;
    t = graft_build_waves(b, t, m->a->time_dim);
    t = embedded(m, "t_embedder", graft_build_cast(b, t, b->act_dtype));
    if (graft_build_dim(b, y, 1) > m->a->pooled_dim)
        y = graft_graph_slice(b->g, y, 0, m->a->pooled_dim);
    y = embedded(m, "y_embedder", graft_build_dense(b, y, b->act_dtype));
    return graft_build_act(b, graft_build_add(b, t, y), GRAFT_ACT_SILU);
}

graft_vid graft_mmdit_patches(const graft_mmdit_blocks *m, graft_vid x, int64_t rows,
                              int64_t columns)
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
