#include "engine/models/transformers/zimage_blocks.h"

#define NAME(...) graft_name_make(__VA_ARGS__)
#define EPS       1e-5f /* of norms by the root mean square */
#define BASE      256   /* of rotations; Lumina-Image's are by the usual one */

/* Where a block's vectors have what. */
enum { SCALE, GATE, MLP_SCALE, MLP_GATE, VECTORS };

int64_t graft_zimage_cells(const graft_zimage_blocks *m)
{
    return (int64_t)m->rows * m->columns;
}

int64_t graft_zimage_filling(const graft_zimage_blocks *m)
{
    if (graft_zimage_of_lumina2(m)) return 0;
    return graft_zimage_tokens(graft_zimage_cells(m)) - graft_zimage_cells(m);
}

/* ------------------------------------------------------------------ attention */

static graft_vid normed(const graft_zimage_blocks *m, graft_name layer, graft_vid v, int32_t heads)
{
    return graft_build_rms_norm(&m->b, NAME("%s.weight", layer.text), v, heads, EPS);
}

static graft_vid rotated(const graft_zimage_blocks *m, graft_vid v, int32_t heads,
                         graft_rope_grid grid)
{
    grid.heads = heads;
    grid.base = graft_zimage_of_lumina2(m) ? 0 : BASE;
    return graft_build_rope(&m->b, v, &grid);
}

/* Along the first axis words are a grid of one column, whose rows turn the values that in the
 * picture turn with the whole grid; column 0 turns nothing. Lumina-Image's stand behind the
 * picture, and go down from its place. */
static graft_vid turned(const graft_zimage_blocks *m, const graft_zimage_sequence *q, graft_vid v,
                        int32_t heads)
{
    const bool last = graft_zimage_of_lumina2(m);
    const int32_t head = m->a->hidden / m->a->heads, of_place = head - 2 * m->a->rope_dim;
    const int64_t picture = q->picture ? graft_zimage_cells(m) + graft_zimage_filling(m) : 0;
    const int64_t words = q->words ? m->words : 0, filling = graft_zimage_filling(m);
    if (q->words)
        v = rotated(m, v, heads,
                    (graft_rope_grid){.rows = (int32_t)words,
                                      .columns = 1,
                                      .behind = last ? 0 : (int32_t)picture,
                                      .top = last ? (int32_t)words - 1 : 1,
                                      .down = last,
                                      .of_row = of_place,
                                      .of_column = head - of_place});
    if (q->picture)
        v = rotated(m, v, heads,
                    (graft_rope_grid){.rows = m->rows,
                                      .columns = m->columns,
                                      .behind = (int32_t)(last ? words : filling),
                                      .frame = (int32_t)(last ? words : m->words + 1),
                                      .of_row = m->a->rope_dim,
                                      .of_column = m->a->rope_dim});
    return v;
}

/* Of Lumina-Image, where some of the prompt's tokens may not count. */
static graft_vid attend(const graft_zimage_blocks *m, const graft_zimage_sequence *q,
                        graft_vid in[3])
{
    const int32_t heads = m->a->heads;
    if (m->a->key_heads < heads) in[2] = graft_build_dense(&m->b, in[2], GRAFT_DTYPE_NONE);
    for (int i = 1; i < 3; i++)
        in[i] = graft_stream_heads_shared(&m->b, in[i], heads, m->a->key_heads);
    if (!q->words) return graft_build_attention(&m->b, in[0], in[1], in[2], heads, false);
    const graft_vid count =
        graft_stream_count(&m->b, m->own, q->picture ? graft_zimage_cells(m) : 0);
    return graft_build_attention_counted(&m->b, in, count, heads);
}

static graft_vid attention(const graft_zimage_blocks *m, const graft_zimage_sequence *q,
                           graft_vid v)
{
    const bool lumina2 = graft_zimage_of_lumina2(m);
    const int32_t hidden = m->a->hidden, heads = m->a->heads;
    const int32_t key_heads = lumina2 ? m->a->key_heads : heads, keys = hidden / heads * key_heads;
    const graft_name name = NAME("%s.attention", q->s.name.text);
    v = graft_build_linear(&m->b, NAME("%s.qkv", name.text), v, hidden + 2 * keys, false);
    graft_vid in[3] = {graft_graph_slice(m->b.g, v, 0, hidden),
                       graft_graph_slice(m->b.g, v, hidden, keys),
                       graft_graph_slice(m->b.g, v, hidden + keys, keys)};
    in[0] = turned(m, q, normed(m, NAME("%s.q_norm", name.text), in[0], heads), heads);
    in[1] = turned(m, q, normed(m, NAME("%s.k_norm", name.text), in[1], key_heads), key_heads);
    v = lumina2 ? attend(m, q, in)
                : graft_build_attention(&m->b, in[0], in[1], in[2], heads, false);
    return graft_build_linear(&m->b, NAME("%s.out", name.text), v, hidden, false);
}

/* ------------------------------------------------------------------ blocks */

static graft_vid feed_forward(const graft_zimage_blocks *m, const graft_zimage_sequence *q,
                              graft_vid v)
{
    static const graft_build_gated_layers layers = {"w1", "w3", "w2"};
    return graft_build_gated(&m->b, NAME("%s.feed_forward", q->s.name.text), &layers, v, m->a->mlp,
                             GRAFT_ACT_SILU);
}

/* What a branch sees: the stream, normed, and where it is told the time, scaled. */
static graft_vid begun(const graft_zimage_blocks *m, const graft_zimage_sequence *q,
                       const char *norm, int scale)
{
    const int64_t hidden = m->a->hidden;
    graft_vid v = normed(m, NAME("%s.%s", q->s.name.text, norm), q->s.h, 1);
    if (!q->told) return v;
    return graft_build_mul(&m->b, v,
                           graft_graph_slice(m->b.g, q->s.scales, scale * hidden, hidden));
}

static void joins(const graft_zimage_blocks *m, graft_zimage_sequence *q, const char *norm,
                  int gate, graft_vid v)
{
    v = normed(m, NAME("%s.%s", q->s.name.text, norm), v, 1);
    q->s.h =
        q->told ? graft_stream_gated(&m->b, &q->s, gate, v) : graft_build_add(&m->b, v, q->s.h);
}

void graft_zimage_block(const graft_zimage_blocks *m, const char *list, int i,
                        graft_zimage_sequence *q)
{
    q->s.name = NAME("%s.%d", list, i);
    if (q->told) {
        const bool acts = graft_zimage_of_lumina2(m);
        graft_stream_modulate(&m->b, &q->s, NAME("%s.adaLN_modulation.%d", q->s.name.text, acts),
                              acts ? graft_build_act(&m->b, m->told, GRAFT_ACT_SILU) : m->told,
                              VECTORS);
        q->s.shifts = graft_build_act(&m->b, q->s.shifts, GRAFT_ACT_TANH);
    }
    joins(m, q, "attention_norm2", GATE, attention(m, q, begun(m, q, "attention_norm1", SCALE)));
    joins(m, q, "ffn_norm2", MLP_GATE, feed_forward(m, q, begun(m, q, "ffn_norm1", MLP_SCALE)));
}

/* ------------------------------------------------------------------ in and out */

/* The network is told 1000 where nothing is noise, Lumina-Image 1. */
graft_vid graft_zimage_time(const graft_zimage_blocks *m, graft_vid t)
{
    const graft_build *b = &m->b;
    t = graft_zimage_of_lumina2(m) ? graft_build_scale(b, t, -0.001f, 1)
                                   : graft_build_scale(b, t, -1, 1000);
    t = graft_build_cast(b, graft_build_waves(b, t, m->a->time_dim), b->act_dtype);
    t = graft_build_linear(b, NAME("t_embedder.mlp.0"), t, m->a->time_mlp, true);
    t = graft_build_act(b, t, GRAFT_ACT_SILU);
    return graft_build_linear(b, NAME("t_embedder.mlp.2"), t, m->a->told, true);
}

/* (N,GRAFT_ZIMAGE_TOKENS,hidden), each token this weight, for which there is no operator: ones
 * times it. `like` has that shape. */
static graft_vid repeated(const graft_zimage_blocks *m, const char *weight, graft_vid like)
{
    const int64_t dim[3] = {1, 1, m->a->hidden};
    return graft_build_mul(&m->b, graft_build_scale(&m->b, like, 0, 1),
                           graft_graph_weight(m->b.g, weight, 3, dim));
}

/* The last tokens of h, of which y marks those that fill the prompt up. */
static graft_vid filled(const graft_zimage_blocks *m, graft_vid h, graft_vid y)
{
    const int64_t rest = m->words - GRAFT_ZIMAGE_TOKENS;
    const int64_t dim[3] = {graft_build_dim(&m->b, h, 0), GRAFT_ZIMAGE_TOKENS, 1};
    graft_vid last = graft_stream_tokens(&m->b, h, rest, GRAFT_ZIMAGE_TOKENS);
    y = graft_graph_reshape(m->b.g, y, 3, dim);
    graft_vid pad = graft_build_mul(&m->b, repeated(m, "cap_pad_token", last), y);
    last = graft_build_add(&m->b, graft_build_mul(&m->b, last, graft_build_scale(&m->b, y, -1, 1)),
                           pad);
    return rest > 0 ? graft_build_join(&m->b, graft_stream_tokens(&m->b, h, 0, rest), last) : last;
}

void graft_zimage_prompt(const graft_zimage_blocks *m, graft_vid context, graft_vid y,
                         graft_zimage_sequence *q)
{
    if (graft_zimage_of_lumina2(m)) context = graft_stream_reversed(&m->b, context, m->own);
    context = normed(m, NAME("cap_embedder.0"), context, 1);
    context = graft_build_cast(&m->b, context, m->b.act_dtype);
    context = graft_build_linear(&m->b, NAME("cap_embedder.1"), context, m->a->hidden, true);
    q->s.h = graft_zimage_of_lumina2(m) ? context : filled(m, context, y);
    for (int i = 0; i < m->a->context_depth; i++) graft_zimage_block(m, "context_refiner", i, q);
}

graft_vid graft_zimage_filled(const graft_zimage_blocks *m, graft_vid v, graft_vid like)
{
    if (!graft_zimage_filling(m)) return v;
    like = graft_stream_tokens(&m->b, like, 0, GRAFT_ZIMAGE_TOKENS);
    like = repeated(m, "x_pad_token", like);
    return graft_build_join(&m->b, v, graft_stream_tokens(&m->b, like, 0, graft_zimage_filling(m)));
}

graft_vid graft_zimage_picture(const graft_zimage_blocks *m, graft_vid x, graft_vid like)
{
    x = graft_stream_patches(&m->b, x, m->a->patch);
    x = graft_build_linear(&m->b, NAME("x_embedder"), x, m->a->hidden, true);
    return graft_zimage_filled(m, x, like);
}
