#include "engine/models/encoders/qwen_vision.h"

#include <math.h>

#include "engine/models/parts/stream.h"
#include "engine/models/parts/turned.h"

#define NAME(...) graft_name_make(__VA_ARGS__)
#define BASE      10000.0
enum { SIDE = 2, WINDOW = GRAFT_QWEN_VISION_WINDOW, PARTS = 4 };

/* Windows of one size, which follow each other. */
typedef struct windows {
    int64_t n, tokens; /* of each */
} windows;

typedef struct vision {
    graft_build b;
    const graft_qwen_vision_arch *a;
    int64_t tokens;
    windows part[PARTS];
    graft_turns turns;
} vision;

/* Where the cells of a part are: part & 1 the columns that whole windows leave, part & 2 the rows.
 */
static void part_of(int64_t rows, int64_t columns, int part, int64_t from[2], int64_t to[2])
{
    const int64_t whole[2] = {rows / WINDOW * WINDOW, columns / WINDOW * WINDOW};
    from[0] = part & 2 ? whole[0] : 0;
    to[0] = part & 2 ? rows : whole[0];
    from[1] = part & 1 ? whole[1] : 0;
    to[1] = part & 1 ? columns : whole[1];
}

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static windows windows_of(int64_t rows, int64_t columns, int part)
{
    int64_t from[2], to[2];
    part_of(rows, columns, part, from, to);
    const int64_t high = least(to[0] - from[0], WINDOW), wide = least(to[1] - from[1], WINDOW);
    const int64_t cells = (to[0] - from[0]) * (to[1] - from[1]);
    if (!cells) return (windows){0, 0};
    return (windows){cells / (high * wide), high * wide * GRAFT_QWEN_VISION_MERGED};
}

void graft_qwen_vision_order(int64_t rows, int64_t columns, int32_t *place)
{
    for (int part = 0; part < PARTS; part++) {
        int64_t from[2], to[2];
        part_of(rows, columns, part, from, to);
        for (int64_t top = from[0]; top < to[0]; top += WINDOW)
            for (int64_t left = from[1]; left < to[1]; left += WINDOW)
                for (int64_t y = top; y < least(top + WINDOW, to[0]); y++)
                    for (int64_t x = left; x < least(left + WINDOW, to[1]); x++)
                        *place++ = (int32_t)(y * columns + x);
    }
}

int64_t graft_qwen_vision_values(int32_t patch)
{
    return (int64_t)GRAFT_QWEN_VISION_COLOURS * GRAFT_QWEN_VISION_FRAMES * patch * patch;
}

void graft_qwen_vision_square(int32_t cell, int64_t columns, int k, int64_t at[2])
{
    at[0] = SIDE * (cell / columns) + k / SIDE;
    at[1] = SIDE * (cell % columns) + k % SIDE;
}

/* The same of token i, in an order of cells or in none. */
static void token_at(int64_t i, int64_t columns, const int32_t *place, int64_t at[2])
{
    const int64_t cell = i / GRAFT_QWEN_VISION_MERGED;
    graft_qwen_vision_square(place ? place[cell] : (int32_t)cell, columns,
                             (int)(i % GRAFT_QWEN_VISION_MERGED), at);
}

void graft_qwen_vision_squares(int32_t patch, int64_t rows, int64_t columns, const int32_t *place,
                               const float *pixels, float *squares)
{
    const int64_t p = patch, wide = SIDE * columns * p;
    for (int64_t i = 0; i < rows * columns * GRAFT_QWEN_VISION_MERGED; i++) {
        int64_t at[2];
        token_at(i, columns, place, at);
        for (int c = 0; c < GRAFT_QWEN_VISION_COLOURS; c++)
            for (int frame = 0; frame < GRAFT_QWEN_VISION_FRAMES; frame++)
                for (int64_t y = at[0] * p; y < (at[0] + 1) * p; y++)
                    for (int64_t x = at[1] * p; x < (at[1] + 1) * p; x++)
                        *squares++ = pixels[(y * wide + x) * GRAFT_QWEN_VISION_COLOURS + c];
    }
}

void graft_qwen_vision_angles(int32_t head, int64_t rows, int64_t columns, const int32_t *place,
                              float *cosines, float *sines)
{
    const int32_t axis = head / 4; /* angles of each */
    for (int64_t i = 0; i < rows * columns * GRAFT_QWEN_VISION_MERGED; i++) {
        int64_t at[2];
        token_at(i, columns, place, at);
        for (int32_t k = 0; k < 2 * axis; k++) {
            const double angle = (double)at[k / axis] * pow(BASE, -(double)(k % axis) / axis);
            *cosines++ = (float)cos(angle);
            *sines++ = (float)sin(angle);
        }
    }
}

/* ------------------------------------------------------------------ layers */

/* Of the float32 that the layers add up to. */
static graft_vid normed(const vision *m, graft_name weight, graft_vid x)
{
    return graft_build_cast(&m->b, graft_stream_head_normed(&m->b, weight, x, 1), m->b.act_dtype);
}

static graft_vid added(const vision *m, graft_vid x, graft_vid y)
{
    return graft_build_add(&m->b, graft_build_cast(&m->b, y, GRAFT_F32), x);
}

/* Each window by itself, as an entry of a batch. */
static graft_vid attend_within(const vision *m, const graft_vid qkv[3])
{
    graft_vid all = GRAFT_NO_VALUE;
    int64_t begin = 0;
    for (int part = 0; part < PARTS; part++) {
        const windows *w = &m->part[part];
        const int64_t dim[3] = {w->n, w->tokens, m->a->width}, count = w->n * w->tokens;
        graft_vid in[3], v;
        if (!count) continue;
        for (int k = 0; k < 3; k++)
            in[k] = graft_graph_reshape(m->b.g, graft_stream_tokens(&m->b, qkv[k], begin, count), 3,
                                        dim);
        v = graft_build_attention(&m->b, in[0], in[1], in[2], m->a->heads, false);
        v = graft_graph_reshape(m->b.g, v, 3, (const int64_t[]){1, count, m->a->width});
        all = all < 0 ? v : graft_build_join(&m->b, all, v);
        begin += count;
    }
    return all;
}

static graft_vid attention(const vision *m, int i, graft_vid x)
{
    const graft_name name = NAME("blocks.%d.attn", i);
    const int32_t width = m->a->width, heads = m->a->heads;
    graft_vid qkv[3], v = normed(m, NAME("blocks.%d.norm1.weight", i), x);
    v = graft_build_linear(&m->b, NAME("%s.qkv", name.text), v, 3 * width, true);
    for (int k = 0; k < 3; k++) qkv[k] = graft_graph_slice(m->b.g, v, (int64_t)k * width, width);
    for (int k = 0; k < 2; k++) qkv[k] = graft_turned(&m->b, &m->turns, qkv[k], heads);
    qkv[2] = graft_build_dense(&m->b, qkv[2], GRAFT_DTYPE_NONE);
    v = (i + 1) % m->a->whole_every
            ? attend_within(m, qkv)
            : graft_build_attention(&m->b, qkv[0], qkv[1], qkv[2], heads, false);
    return added(m, x, graft_build_linear(&m->b, NAME("%s.proj", name.text), v, width, true));
}

static graft_vid feed_forward(const vision *m, int i, graft_vid x)
{
    const graft_name name = NAME("blocks.%d.mlp", i);
    graft_vid h = normed(m, NAME("blocks.%d.norm2.weight", i), x);
    graft_vid gate =
        graft_build_linear(&m->b, NAME("%s.gate_proj", name.text), h, m->a->intermediate, true);
    gate = graft_build_act(&m->b, gate, GRAFT_ACT_SILU);
    h = graft_build_linear(&m->b, NAME("%s.up_proj", name.text), h, m->a->intermediate, true);
    h = graft_build_mul(&m->b, gate, h);
    return added(m, x,
                 graft_build_linear(&m->b, NAME("%s.down_proj", name.text), h, m->a->width, true));
}

/* The squares of a cell side by side, through two layers. */
static graft_vid merged(const vision *m, graft_vid x)
{
    const int32_t wide = GRAFT_QWEN_VISION_MERGED * m->a->width;
    const int64_t cells[3] = {1, m->tokens / GRAFT_QWEN_VISION_MERGED, wide};
    x = graft_graph_reshape(m->b.g, normed(m, NAME("merger.ln_q.weight"), x), 3, cells);
    x = graft_build_linear(&m->b, NAME("merger.mlp.0"), x, wide, true);
    x = graft_build_act(&m->b, x, GRAFT_ACT_GELU);
    x = graft_build_linear(&m->b, NAME("merger.mlp.2"), x, m->a->out, true);
    return graft_build_cast(&m->b, x, GRAFT_F32);
}

static void check(vision *m, const graft_qwen_vision_shape *s)
{
    if (s->act_dtype != GRAFT_F32 && s->act_dtype != GRAFT_BF16)
        graft_graph_fail(m->b.g, GRAFT_E_UNSUPPORTED,
                         "Qwen 2.5-VL looks at pictures in float32 and bfloat16 only");
    if (s->rows < 1 || s->columns < 1 || s->rows > GRAFT_QWEN_VISION_CELLS ||
        s->columns > GRAFT_QWEN_VISION_CELLS / s->rows) {
        graft_graph_fail(m->b.g, GRAFT_E_LIMIT,
                         "a picture of %lld x %lld cells for Qwen 2.5-VL: it takes up to %d",
                         (long long)s->columns, (long long)s->rows, GRAFT_QWEN_VISION_CELLS);
        return;
    }
    m->tokens = s->rows * s->columns * GRAFT_QWEN_VISION_MERGED;
    for (int i = 0; i < PARTS; i++) m->part[i] = windows_of(s->rows, s->columns, i);
}

graft_status graft_qwen_vision_build(const graft_qwen_vision_arch *a,
                                     const graft_qwen_vision_shape *s, graft_graph **out,
                                     graft_err *e)
{
    graft_graph *g = graft_graph_create();
    if (!g) return graft_fail_nomem(e, "vision encoder graph");
    vision m = {.b = {g, s->act_dtype}, .a = a};
    const int64_t values = graft_qwen_vision_values(a->patch), embed[2] = {a->width, values};
    check(&m, s);
    graft_vid x = graft_graph_input(g, GRAFT_F32, 3, (const int64_t[]){1, m.tokens, values});
    m.turns = graft_turns_input(&m.b, m.tokens, a->width / a->heads / 2);
    x = graft_build_cast(&m.b, x, s->act_dtype);
    x = graft_build_linear_by(&m.b, x, graft_graph_weight(g, "patch_embed.proj.weight", 2, embed),
                              GRAFT_NO_VALUE);
    x = graft_build_cast(&m.b, x, GRAFT_F32);
    for (int i = 0; i < a->layers; i++) x = feed_forward(&m, i, attention(&m, i, x));
    graft_graph_output(g, merged(&m, x));
    graft_status st = graft_graph_status(g, e);
    if (st)
        graft_graph_destroy(g);
    else
        *out = g;
    return st;
}
