#include "engine/models/encoders/qwen3_vision.h"

#include "engine/models/encoders/qwen_vision.h"
#include "engine/models/parts/stream.h"
#include "engine/models/parts/turned.h"

#define NAME(...) graft_name_make(__VA_ARGS__)
enum { MERGED = GRAFT_QWEN_VISION_MERGED };

typedef struct vision {
    graft_build b;
    const graft_qwen3_vision_arch *a;
    int64_t tokens;
    graft_turns turns;
} vision;

const char *graft_qwen3_vision_table(void)
{
    return "pos_embed.weight";
}

/* ------------------------------------------------------------------ places */

/* Where square `at` of `count` stands among `side` entries: between entry `low` and the next. */
static double between(int64_t at, int64_t count, int64_t side, int64_t *low)
{
    const double place = count > 1 ? (double)(at * (side - 1)) / (double)(count - 1) : 0;
    *low = (int64_t)place;
    return place - (double)*low;
}

void graft_qwen3_vision_places(const graft_qwen3_vision_arch *a, int64_t rows, int64_t columns,
                               const float *table, float *places)
{
    const int64_t side = a->side, width = a->width;
    for (int64_t i = 0; i < rows * columns * MERGED; i++) {
        int64_t at[2], y, x;
        graft_qwen_vision_square((int32_t)(i / MERGED), columns, (int)(i % MERGED), at);
        const double down = between(at[0], 2 * rows, side, &y);
        const double right = between(at[1], 2 * columns, side, &x);
        const int64_t below = y + 1 < side ? y + 1 : y, beside = x + 1 < side ? x + 1 : x;
        const float share[4] = {(float)((1 - down) * (1 - right)), (float)((1 - down) * right),
                                (float)(down * (1 - right)), (float)(down * right)};
        const float *of[4] = {table + (y * side + x) * width, table + (y * side + beside) * width,
                              table + (below * side + x) * width,
                              table + (below * side + beside) * width};
        for (int64_t k = 0; k < width; k++)
            *places++ = share[0] * of[0][k] + share[1] * of[1][k] + share[2] * of[2][k] +
                        share[3] * of[3][k];
    }
}

/* ------------------------------------------------------------------ layers */

/* Of the float32 that the layers add up to. */
static graft_vid normed(const vision *m, graft_name name, graft_vid x)
{
    x = graft_build_layer_norm_of(&m->b, name, x, GRAFT_STREAM_EPS);
    return graft_build_cast(&m->b, x, m->b.act_dtype);
}

static graft_vid added(const vision *m, graft_vid x, graft_vid y)
{
    return graft_build_add(&m->b, graft_build_cast(&m->b, y, GRAFT_F32), x);
}

static graft_vid attention(const vision *m, int i, graft_vid x)
{
    const graft_name name = NAME("blocks.%d.attn", i);
    const int32_t width = m->a->width, heads = m->a->heads;
    graft_vid qkv[3], v = normed(m, NAME("blocks.%d.norm1", i), x);
    v = graft_build_linear(&m->b, NAME("%s.qkv", name.text), v, 3 * width, true);
    for (int k = 0; k < 3; k++) qkv[k] = graft_graph_slice(m->b.g, v, (int64_t)k * width, width);
    for (int k = 0; k < 2; k++) qkv[k] = graft_turned(&m->b, &m->turns, qkv[k], heads);
    qkv[2] = graft_build_dense(&m->b, qkv[2], GRAFT_DTYPE_NONE);
    v = graft_build_attention(&m->b, qkv[0], qkv[1], qkv[2], heads, false);
    return added(m, x, graft_build_linear(&m->b, NAME("%s.proj", name.text), v, width, true));
}

static graft_vid feed_forward(const vision *m, int i, graft_vid x)
{
    const graft_name name = NAME("blocks.%d.mlp", i);
    graft_vid h = normed(m, NAME("blocks.%d.norm2", i), x);
    h = graft_build_linear(&m->b, NAME("%s.linear_fc1", name.text), h, m->a->intermediate, true);
    h = graft_build_act(&m->b, h, GRAFT_ACT_GELU_TANH);
    h = graft_build_linear(&m->b, NAME("%s.linear_fc2", name.text), h, m->a->width, true);
    return added(m, x, h);
}

/* The squares of a cell side by side, through two layers. What goes deeper is normed as such, the
 * end of the tower square by square. */
static graft_vid merged(const vision *m, graft_name name, bool deep, graft_vid x)
{
    const int32_t wide = MERGED * m->a->width;
    const int64_t cells[3] = {1, m->tokens / MERGED, wide};
    const graft_name norm = NAME("%s.norm", name.text);
    if (deep) x = graft_graph_reshape(m->b.g, x, 3, cells);
    x = normed(m, norm, x);
    if (!deep) x = graft_graph_reshape(m->b.g, x, 3, cells);
    x = graft_build_linear(&m->b, NAME("%s.linear_fc1", name.text), x, wide, true);
    x = graft_build_act(&m->b, x, GRAFT_ACT_GELU);
    x = graft_build_linear(&m->b, NAME("%s.linear_fc2", name.text), x, m->a->out, true);
    return graft_build_cast(&m->b, x, GRAFT_F32);
}

static void check(vision *m, const graft_qwen3_vision_shape *s)
{
    if (s->act_dtype != GRAFT_F32 && s->act_dtype != GRAFT_BF16)
        graft_graph_fail(m->b.g, GRAFT_E_UNSUPPORTED,
                         "Qwen 3-VL looks at pictures in float32 and bfloat16 only");
    if (s->rows < 1 || s->columns < 1 || s->rows > GRAFT_QWEN_VISION_CELLS ||
        s->columns > GRAFT_QWEN_VISION_CELLS / s->rows) {
        graft_graph_fail(m->b.g, GRAFT_E_LIMIT,
                         "a picture of %lld x %lld cells for Qwen 3-VL: it takes up to %d",
                         (long long)s->columns, (long long)s->rows, GRAFT_QWEN_VISION_CELLS);
        return;
    }
    m->tokens = s->rows * s->columns * MERGED;
}

/* Squares with their places. */
static graft_vid embedded(const vision *m)
{
    const graft_build *b = &m->b;
    const int64_t values = graft_qwen_vision_values(m->a->patch), width = m->a->width;
    const int64_t embed[2] = {width, values};
    graft_vid x = graft_graph_input(b->g, GRAFT_F32, 3, (const int64_t[]){1, m->tokens, values});
    const graft_vid places =
        graft_graph_input(b->g, GRAFT_F32, 3, (const int64_t[]){1, m->tokens, width});
    x = graft_build_linear_by(b, graft_build_cast(b, x, b->act_dtype),
                              graft_graph_weight(b->g, "patch_embed.proj.weight", 2, embed),
                              graft_graph_weight(b->g, "patch_embed.proj.bias", 1, embed));
    return added(m, places, x);
}

graft_status graft_qwen3_vision_build(const graft_qwen3_vision_arch *a,
                                      const graft_qwen3_vision_shape *s, graft_graph **out,
                                      graft_err *e)
{
    graft_graph *g = graft_graph_create();
    if (!g) return graft_fail_nomem(e, "vision encoder graph");
    vision m = {.b = {g, s->act_dtype}, .a = a};
    graft_vid deep[GRAFT_QWEN3_DEEP] = {GRAFT_NO_VALUE};
    check(&m, s);
    graft_vid x = embedded(&m);
    m.turns = graft_turns_input(&m.b, m.tokens, a->width / a->heads / 2);
    for (int i = 0, k = 0; i < a->layers; i++) {
        x = feed_forward(&m, i, attention(&m, i, x));
        if (k >= a->deep || i != a->deep_first + k * a->deep_step) continue;
        deep[k] = merged(&m, NAME("deepstack_merger_list.%d", k), true, x);
        k++;
    }
    graft_graph_output(g, merged(&m, NAME("merger"), false, x));
    for (int k = 0; k < a->deep; k++) graft_graph_output(g, deep[k]);
    graft_status st = graft_graph_status(g, e);
    if (st)
        graft_graph_destroy(g);
    else
        *out = g;
    return st;
}
