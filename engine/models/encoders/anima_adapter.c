#include "engine/models/encoders/anima_adapter.h"

#include "engine/models/parts/stream.h"
#include "engine/models/parts/turned.h"

#define NAME(...) graft_name_make(__VA_ARGS__)

/* ------------------------------------------------------------------ attention */

/* Queries or keys. */
static graft_vid normed(const graft_build *b, const graft_anima_attention *a, const char *which,
                        graft_vid x, const graft_rope_grid *grid)
{
    x = graft_build_linear(b, NAME("%s.%s_proj", a->name, which), x, a->width, false);
    x = graft_stream_head_normed(b, NAME("%s.%s_norm.weight", a->name, which), x, a->heads);
    return grid ? graft_turned_on(b, x, grid) : x;
}

graft_vid graft_anima_attend(const graft_build *b, const graft_anima_attention *a, graft_vid x,
                             graft_vid seen)
{
    const graft_vid query = normed(b, a, "q", x, a->query);
    const graft_vid key = normed(b, a, "k", seen, a->key);
    graft_vid v = graft_build_linear(b, NAME("%s.v_proj", a->name), seen, a->width, false);
    const graft_vid in[3] = {query, key, v};
    v = a->count < 0 ? graft_build_attention(b, query, key, v, a->heads, false)
                     : graft_build_attention_counted(b, in, a->count, a->heads);
    return graft_build_linear(b, NAME("%s.%s", a->name, a->out), v, a->width, false);
}

/* ------------------------------------------------------------------ the adapter */

typedef struct adapter {
    const graft_build *b;
    const graft_anima_arch *a;
    graft_rope_grid of_words, of_tokens;
    graft_vid words, tokens; /* how many count, (N) int32 */
    graft_vid context;       /* of act_dtype */
} adapter;

/* Columns of y, dense. */
static graft_vid told(const graft_build *b, graft_vid y, int64_t begin, int64_t count)
{
    return graft_build_dense(b, graft_graph_slice(b->g, y, begin, count), GRAFT_DTYPE_NONE);
}

static graft_rope_grid in_a_row(const graft_anima_arch *a, int64_t tokens)
{
    return (graft_rope_grid){.heads = a->adapter_heads,
                             .rows = 1,
                             .columns = (int32_t)tokens,
                             .of_column = a->adapter_width / a->adapter_heads};
}

static graft_vid looked_up(const graft_build *b, const graft_anima_arch *a, graft_vid y)
{
    const int64_t dim[2] = {a->words, a->adapter_width};
    const graft_vid in[2] = {
        graft_build_cast(b, told(b, y, 0, GRAFT_ANIMA_WORDS), GRAFT_I32),
        graft_graph_weight(b->g, "llm_adapter.embed.weight", 2, dim),
    };
    if (in[0] < 0 || in[1] < 0) return GRAFT_NO_VALUE;
    return graft_graph_node(b->g, GRAFT_OP_EMBEDDING, NULL, in, 2, b->act_dtype);
}

static graft_vid begun(const adapter *m, int i, const char *norm, graft_vid x)
{
    return graft_stream_head_normed(m->b, NAME("llm_adapter.blocks.%d.%s.weight", i, norm), x, 1);
}

static graft_vid block(const adapter *m, int i, graft_vid x)
{
    const graft_build *b = m->b;
    const graft_name own = NAME("llm_adapter.blocks.%d.self_attn", i),
                     cross = NAME("llm_adapter.blocks.%d.cross_attn", i),
                     mlp = NAME("llm_adapter.blocks.%d.mlp", i);
    const graft_anima_attention to_words = {.name = own.text,
                                            .out = "o_proj",
                                            .width = m->a->adapter_width,
                                            .heads = m->a->adapter_heads,
                                            .query = &m->of_words,
                                            .key = &m->of_words,
                                            .count = m->words};
    graft_anima_attention to_tokens = to_words;
    to_tokens.name = cross.text;
    to_tokens.key = &m->of_tokens;
    to_tokens.count = m->tokens;
    graft_vid v = begun(m, i, "norm_self_attn", x);
    x = graft_build_add(b, graft_anima_attend(b, &to_words, v, v), x);
    v = begun(m, i, "norm_cross_attn", x);
    x = graft_build_add(b, graft_anima_attend(b, &to_tokens, v, m->context), x);
    v = graft_build_linear(b, NAME("%s.0", mlp.text), begun(m, i, "norm_mlp", x), m->a->adapter_mlp,
                           true);
    v = graft_build_act(b, v, GRAFT_ACT_GELU);
    v = graft_build_linear(b, NAME("%s.2", mlp.text), v, m->a->adapter_width, true);
    return graft_build_add(b, v, x);
}

graft_vid graft_anima_adapt(const graft_build *b, const graft_anima_arch *a, graft_vid context,
                            graft_vid y)
{
    const int64_t n = graft_build_dim(b, y, 0), dim[3] = {n, GRAFT_ANIMA_WORDS, 1};
    const adapter m = {
        .b = b,
        .a = a,
        .of_words = in_a_row(a, GRAFT_ANIMA_WORDS),
        .of_tokens = in_a_row(a, graft_build_dim(b, context, 1)),
        .words = graft_stream_count(b, graft_graph_slice(b->g, y, GRAFT_ANIMA_TOLD - 1, 1), 0),
        .tokens = graft_stream_count(b, graft_graph_slice(b->g, y, GRAFT_ANIMA_TOLD, 1), 0),
        .context = graft_build_cast(b, context, b->act_dtype)};
    graft_vid x = looked_up(b, a, y);
    for (int i = 0; i < a->adapter_depth; i++) x = block(&m, i, x);
    x = graft_build_linear(b, NAME("llm_adapter.out_proj"), x, a->adapter_width, true);
    x = graft_stream_head_normed(b, NAME("llm_adapter.norm.weight"), x, 1);
    y = graft_graph_reshape(b->g, told(b, y, GRAFT_ANIMA_WORDS, GRAFT_ANIMA_WORDS), 3, dim);
    return graft_build_mul(b, x, y);
}
