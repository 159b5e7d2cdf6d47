#include "engine/models/transformers/anima.h"

#include <math.h>

#include "engine/models/parts/stream.h"
#include "engine/models/parts/transformer.h"

#define NAME(...) graft_name_make(__VA_ARGS__)
#define SIDE_MAX  (1 << 15) /* tokens, and of a prompt */
/* By how much rotations are stretched along rows and columns. */
#define STRETCH 4

/* Where a branch's vectors have what. */
enum { SHIFT, SCALE, GATE, VECTORS };

typedef struct anima {
    graft_build b;
    const graft_anima_arch *a;
    graft_rope_grid grid; /* of the picture */
    graft_vid vec;        /* SiLU of the waves that tell the time, normed, (N,hidden) */
    graft_vid shared;     /* of all branches, (N,VECTORS*hidden) float32 */
    graft_vid words;      /* (N,GRAFT_ANIMA_WORDS,adapter_width) */
} anima;

/* ------------------------------------------------------------------ the time */

static void condition(anima *m, graft_vid t)
{
    const graft_build *b = &m->b;
    t = graft_build_waves(b, graft_build_scale(b, t, 1e-3f, 0), m->a->hidden);
    m->vec = graft_stream_head_normed(b, NAME("t_embedding_norm.weight"), t, 1);
    m->vec = graft_build_act(b, graft_build_cast(b, m->vec, b->act_dtype), GRAFT_ACT_SILU);
    t = graft_build_cast(b, t, b->act_dtype);
    t = graft_build_linear(b, NAME("t_embedder.1.linear_1"), t, m->a->hidden, false);
    t = graft_build_act(b, t, GRAFT_ACT_SILU);
    t = graft_build_linear(b, NAME("t_embedder.1.linear_2"), t, VECTORS * m->a->hidden, false);
    m->shared = graft_build_cast(b, t, GRAFT_F32);
}

/* The first `vectors` of what a branch is told, by the two layers behind this name. */
static void modulate(const anima *m, graft_stream *s, graft_name name, int vectors)
{
    const graft_build *b = &m->b;
    const int32_t width = vectors * m->a->hidden;
    graft_vid shared = m->shared;
    if (vectors < VECTORS)
        shared = graft_build_dense(b, graft_graph_slice(b->g, shared, 0, width), GRAFT_DTYPE_NONE);
    graft_vid v = graft_build_linear(b, NAME("%s.1", name.text), m->vec, m->a->told, false);
    v = graft_build_linear(b, NAME("%s.2", name.text), v, width, false);
    v = graft_build_add(b, graft_build_cast(b, v, GRAFT_F32), shared);
    graft_stream_modulate_given(b, s, v, 0, vectors);
}

/* ------------------------------------------------------------------ blocks */

static graft_vid attention(const anima *m, graft_name name, const graft_rope_grid *grid,
                           graft_vid v, graft_vid seen)
{
    const graft_anima_attention a = {.name = name.text,
                                     .out = "output_proj",
                                     .width = m->a->hidden,
                                     .heads = m->a->heads,
                                     .query = grid,
                                     .key = grid,
                                     .count = GRAFT_NO_VALUE};
    return graft_anima_attend(&m->b, &a, v, seen);
}

static graft_vid mlp(const anima *m, graft_name name, graft_vid v)
{
    v = graft_build_linear(&m->b, NAME("%s.layer1", name.text), v, m->a->mlp, false);
    v = graft_build_act(&m->b, v, GRAFT_ACT_GELU);
    return graft_build_linear(&m->b, NAME("%s.layer2", name.text), v, m->a->hidden, false);
}

static void block(const anima *m, int i, graft_stream *s)
{
    static const char *const branches[] = {"self_attn", "cross_attn", "mlp"};
    for (int k = 0; k < 3; k++) {
        const graft_name name = NAME("blocks.%d.%s", i, branches[k]);
        modulate(m, s, NAME("blocks.%d.adaln_modulation_%s", i, branches[k]), VECTORS);
        graft_vid v = graft_stream_normed(&m->b, s, SHIFT);
        v = k == 0   ? attention(m, name, &m->grid, v, v)
            : k == 1 ? attention(m, name, NULL, v, m->words)
                     : mlp(m, name, v);
        s->h = graft_stream_gated(&m->b, s, GATE, v);
    }
}

/* ------------------------------------------------------------------ in and out */

/* Behind a latent's planes comes one that marks what pictures were filled up with to become as
 * large as others of their batch: of one by itself nothing, so it is zeros. */
static graft_vid embedded(const anima *m, graft_vid x)
{
    const graft_build *b = &m->b;
    const int64_t cells = (int64_t)m->a->patch * m->a->patch;
    x = graft_stream_plane_patches(b, x, m->a->patch);
    graft_vid none = graft_build_dense(b, graft_graph_slice(b->g, x, 0, cells), GRAFT_DTYPE_NONE);
    x = graft_build_concat(b, x, graft_build_scale(b, none, 0, 0));
    return graft_build_linear(b, NAME("x_embedder.proj.1"), x, m->a->hidden, false);
}

static graft_vid final_layer(const anima *m, graft_stream *s)
{
    modulate(m, s, NAME("final_layer.adaln_modulation"), VECTORS - 1);
    return graft_build_linear(&m->b, NAME("final_layer.linear"),
                              graft_stream_normed(&m->b, s, SHIFT),
                              m->a->patch * m->a->patch * m->a->channels, false);
}

/* Of s values that turn with an axis the slowest is to turn STRETCH times as slowly as by the usual
 * base, and the fastest as it does. */
static float base_of(int32_t values)
{
    return (float)(GRAFT_ROPE_BASE * pow(STRETCH, (double)values / (values - 2)));
}

static void place(anima *m, const graft_net_shape *s)
{
    const int32_t turned = m->a->rope_dim;
    m->grid = (graft_rope_grid){.heads = m->a->heads,
                                .rows = (int32_t)(s->height / m->a->patch),
                                .columns = (int32_t)(s->width / m->a->patch),
                                .of_row = turned,
                                .of_column = turned,
                                .base = turned > 2 ? base_of(turned) : 0};
}

static void check_shape(graft_graph *g, const graft_anima_arch *a, const graft_net_shape *s)
{
    graft_transformer_check_patches(g, s, a->patch);
    graft_transformer_check_side(g, s, a->patch, SIDE_MAX);
    graft_transformer_check_tokens(g, s, 1, SIDE_MAX);
    graft_transformer_check_wide(g, s, "Anima");
    graft_transformer_check_unchanged(g, s, s->perturbed || s->control);
}

graft_status graft_anima_build(const graft_anima_arch *a, const graft_net_shape *shape,
                               graft_graph **out, graft_err *e)
{
    graft_graph *g = graft_graph_create();
    if (!g) return graft_fail_nomem(e, "transformer graph");
    anima m = {.b = {g, shape->act_dtype}, .a = a};
    const int64_t n = shape->batch, h = shape->height, w = shape->width;
    check_shape(g, a, shape);
    place(&m, shape);
    const graft_vid x = graft_graph_input(g, GRAFT_F32, 4, (int64_t[]){n, a->channels, h, w});
    const graft_vid t = graft_graph_input(g, GRAFT_F32, 1, &n);
    const graft_vid c =
        graft_graph_input(g, GRAFT_F32, 3, (int64_t[]){n, shape->tokens, a->context_dim});
    const graft_vid y = graft_graph_input(g, GRAFT_F32, 2, (int64_t[]){n, GRAFT_ANIMA_TOLD + 1});
    condition(&m, t);
    m.words = graft_anima_adapt(&m.b, a, c, y);
    graft_stream s = {.h = embedded(&m, x)};
    for (int i = 0; i < a->depth; i++) block(&m, i, &s);
    graft_graph_output(g, graft_stream_unpatched(&m.b, final_layer(&m, &s), m.grid.rows,
                                                 m.grid.columns, a->patch));
    graft_status st = graft_graph_status(g, e);
    if (!st) {
        *out = g;
        return GRAFT_OK;
    }
    graft_graph_destroy(g);
    return st;
}
