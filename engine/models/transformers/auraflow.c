#include "engine/models/transformers/auraflow.h"

#include "base/alloc.h"
#include "engine/models/parts/rows.h"
#include "engine/models/parts/stream.h"
#include "engine/models/parts/transformer.h"

#define NAME(...) graft_name_make(__VA_ARGS__)
#define SIDE_MAX  (1 << 15) /* tokens, and of a prompt */

/* Where a stream's modulation has what. */
enum { SHIFT, SCALE, GATE, MLP_SHIFT, MLP_SCALE, MLP_GATE, VECTORS };

/* What the layers of a stream are called in a block. */
typedef struct part {
    const char *modulation, *attention, *mlp;
} part;
static const part of_text = {"modC.1", "attn.w1", "mlpC"},
                  of_picture = {"modX.1", "attn.w2", "mlpX"},
                  of_both = {"modCX.1", "attn.w1", "mlp"};

typedef struct auraflow {
    graft_build b;
    const graft_auraflow_arch *a;
    graft_vid vec;         /* SiLU of what the timestep gives, (N,hidden) */
    graft_vid ones, zeros; /* (d): what a norm of heads is scaled and shifted by */
    /* Where the prompt's tokens are counted, which are the last of an attention then, how many of
     * all count (stream.h). */
    bool counts;
    graft_vid count;
} auraflow;

static graft_vid linear(const auraflow *m, graft_name layer, graft_vid v, int32_t width)
{
    return graft_build_linear(&m->b, layer, v, width, false);
}

/* ------------------------------------------------------------------ attention */

/* (N,T,hidden), each head of it. */
static graft_vid head_normed(const auraflow *m, graft_vid v)
{
    const graft_build *b = &m->b;
    const int64_t n = graft_build_dim(b, v, 0), tokens = graft_build_dim(b, v, 1);
    const int32_t heads = m->a->heads, hidden = m->a->hidden;
    v = graft_graph_reshape(b->g, v, 3, (const int64_t[]){n * tokens, heads, hidden / heads});
    const graft_vid in[3] = {v, m->ones, m->zeros};
    if (in[0] < 0 || in[1] < 0 || in[2] < 0) return GRAFT_NO_VALUE;
    v = graft_graph_node(b->g, GRAFT_OP_LAYER_NORM, &(graft_attrs){.eps = GRAFT_LAYER_NORM_EPS}, in,
                         3, GRAFT_DTYPE_NONE);
    return graft_graph_reshape(b->g, v, 3, (const int64_t[]){n, tokens, hidden});
}

/* Queries, keys and values of a stream. */
static void projected(const auraflow *m, const graft_stream *s, const part *p, graft_vid qkv[3])
{
    const graft_vid v = graft_stream_normed_of(&m->b, s, SHIFT, GRAFT_LAYER_NORM_EPS);
    for (int i = 0; i < 3; i++)
        qkv[i] = linear(m, NAME("%s.%s%c", s->name.text, p->attention, "qkv"[i]), v, m->a->hidden);
    for (int i = 0; i < 2; i++) qkv[i] = head_normed(m, qkv[i]);
}

static graft_vid attended(const auraflow *m, const graft_vid qkv[3])
{
    return m->counts ? graft_build_attention_counted(&m->b, qkv, m->count, m->a->heads)
                     : graft_build_attention(&m->b, qkv[0], qkv[1], qkv[2], m->a->heads, false);
}

/* Of text and picture, whichever is first. */
static graft_vid joined(const auraflow *m, graft_vid text, graft_vid picture)
{
    return m->counts ? graft_build_join(&m->b, picture, text)
                     : graft_build_join(&m->b, text, picture);
}

static graft_vid text_of(const auraflow *m, graft_vid both, int64_t words, int64_t cells)
{
    return graft_stream_tokens(&m->b, both, m->counts ? cells : 0, words);
}

static graft_vid picture_of(const auraflow *m, graft_vid both, int64_t words, int64_t cells)
{
    return graft_stream_tokens(&m->b, both, m->counts ? 0 : words, cells);
}

/* ------------------------------------------------------------------ blocks */

static void modulate(const auraflow *m, graft_stream *s, const char *list, int block, const part *p)
{
    s->name = NAME("%s.%d", list, block);
    graft_stream_modulate_unbiased(&m->b, s, NAME("%s.%s", s->name.text, p->modulation), m->vec,
                                   VECTORS);
}

/* The rest of a block, behind its attention. */
static void finish_block(const auraflow *m, graft_stream *s, const part *p, graft_vid v)
{
    static const graft_build_gated_layers layers = {"c_fc1", "c_fc2", "c_proj"};
    graft_stream within = *s;
    v = linear(m, NAME("%s.%so", s->name.text, p->attention), v, m->a->hidden);
    within.h = graft_stream_gated(&m->b, s, GATE, v);
    v = graft_stream_normed_of(&m->b, &within, MLP_SHIFT, GRAFT_LAYER_NORM_EPS);
    v = graft_build_gated(&m->b, NAME("%s.%s", s->name.text, p->mlp), &layers, v, m->a->mlp,
                          GRAFT_ACT_SILU);
    s->h = graft_stream_gated(&m->b, s, MLP_GATE, v);
}

static void block_of_two(const auraflow *m, int i, graft_stream *text, graft_stream *picture)
{
    const int64_t words = graft_build_dim(&m->b, text->h, 1);
    const int64_t cells = graft_build_dim(&m->b, picture->h, 1);
    graft_vid qkv[3], of[2][3];
    modulate(m, text, "double_layers", i, &of_text);
    modulate(m, picture, "double_layers", i, &of_picture);
    projected(m, text, &of_text, of[0]);
    projected(m, picture, &of_picture, of[1]);
    for (int k = 0; k < 3; k++) qkv[k] = joined(m, of[0][k], of[1][k]);
    const graft_vid v = attended(m, qkv);
    finish_block(m, text, &of_text, text_of(m, v, words, cells));
    finish_block(m, picture, &of_picture, picture_of(m, v, words, cells));
}

static void block_of_one(const auraflow *m, int i, graft_stream *both)
{
    graft_vid qkv[3];
    modulate(m, both, "single_layers", i, &of_both);
    projected(m, both, &of_both, qkv);
    finish_block(m, both, &of_both, attended(m, qkv));
}

/* What the rows that the next block sees are told. own: (N,1) tokens of the prompt, where they are
 * counted. */
static void tell(auraflow *m, const graft_rows *r, graft_vid own, int64_t before)
{
    m->vec = graft_rows_vec(r);
    if (m->counts) m->count = graft_stream_count(&m->b, graft_rows_each(r, own), before);
}

/* Returns the picture's tokens. */
static graft_vid all_blocks(auraflow *m, const graft_net_shape *shape, graft_vid own,
                            graft_stream *text, graft_stream *picture)
{
    const int64_t words = graft_build_dim(&m->b, text->h, 1);
    const int64_t cells = graft_build_dim(&m->b, picture->h, 1);
    const int64_t before = cells + m->a->registers;
    graft_rows r;
    graft_rows_init(&r, &m->b, m->vec, shape->perturbed, text, picture);
    for (int i = 0; i < m->a->depth; i++) {
        const bool skipped = graft_transformer_skips(shape, i);
        graft_rows_before(&r, skipped);
        tell(m, &r, own, before);
        if (!skipped || r.again) block_of_two(m, i, text, picture);
    }
    graft_rows_unite(&r);
    picture->h = joined(m, text->h, picture->h);
    r.stream[0] = picture;
    r.n_streams = 1;
    for (int i = 0; i < m->a->single_depth; i++) {
        const bool skipped = graft_transformer_skips(shape, m->a->depth + i);
        graft_rows_before(&r, skipped);
        tell(m, &r, own, before);
        if (!skipped || r.again) block_of_one(m, i, picture);
    }
    graft_rows_unite(&r);
    m->vec = graft_rows_vec(&r);
    return picture_of(m, picture->h, words, cells);
}

/* ------------------------------------------------------------------ in and out */

static void condition(auraflow *m, graft_vid t)
{
    const graft_build *b = &m->b;
    t = graft_build_cast(b, graft_build_waves(b, t, m->a->time_dim), b->act_dtype);
    t = graft_build_linear(b, NAME("t_embedder.mlp.0"), t, m->a->hidden, true);
    t = graft_build_act(b, t, GRAFT_ACT_SILU);
    t = graft_build_linear(b, NAME("t_embedder.mlp.2"), t, m->a->hidden, true);
    m->vec = graft_build_act(b, t, GRAFT_ACT_SILU);
}

/* The middle of the table, whose middle cell is the picture's. */
static graft_vid places(const auraflow *m, const int64_t dim[4])
{
    static const char table[] = "positional_encoding";
    const int32_t side = m->a->table;
    return side % 2 ? graft_graph_weight_crop(m->b.g, table, side, dim)
                    : graft_graph_weight_crop_later(m->b.g, table, side, dim);
}

static graft_vid picture_tokens(const auraflow *m, graft_vid x, int64_t rows, int64_t columns)
{
    const graft_build *b = &m->b;
    const int64_t n = graft_build_dim(b, x, 0), hidden = m->a->hidden;
    x = graft_stream_plane_patches(b, x, m->a->patch);
    x = graft_build_linear(b, NAME("init_x_linear"), x, m->a->hidden, true);
    x = graft_graph_reshape(b->g, x, 4, (const int64_t[]){n, rows, columns, hidden});
    x = graft_build_add(b, x, places(m, (const int64_t[]){1, rows, columns, hidden}));
    return graft_graph_reshape(b->g, x, 3, (const int64_t[]){n, rows * columns, hidden});
}

/* The registers for each entry of the batch, (N,registers,hidden): ones times them, as there is no
 * operator that repeats a weight. */
static graft_vid registers(const auraflow *m)
{
    const graft_build *b = &m->b;
    const int64_t n = graft_build_dim(b, m->vec, 0), hidden = m->a->hidden, all = m->a->registers;
    graft_vid v = graft_build_scale(b, m->vec, 0, 1);
    v = graft_graph_reshape(b->g, v, 4, (const int64_t[]){n, 1, 1, hidden});
    v = graft_build_upsample(b, v, all, 1);
    v = graft_graph_reshape(b->g, v, 3, (const int64_t[]){n, all, hidden});
    return graft_build_mul(
        b, v, graft_graph_weight(b->g, "register_tokens", 3, (const int64_t[]){1, all, hidden}));
}

static graft_vid text_tokens(const auraflow *m, graft_vid c)
{
    c = graft_build_cast(&m->b, c, m->b.act_dtype);
    return graft_build_join(&m->b, registers(m),
                            linear(m, NAME("cond_seq_linear"), c, m->a->hidden));
}

/* Not normed. */
static graft_vid final_layer(const auraflow *m, graft_vid h, int64_t rows, int64_t columns)
{
    const graft_build *b = &m->b;
    const int32_t hidden = m->a->hidden, patch = m->a->patch;
    graft_stream s = {.h = h};
    graft_stream_modulate_unbiased(b, &s, NAME("modF.1"), m->vec, SCALE + 1);
    const graft_vid shift = graft_graph_slice(b->g, s.shifts, SHIFT * hidden, hidden);
    h = graft_build_mul(b, h, graft_graph_slice(b->g, s.scales, SCALE * hidden, hidden));
    h = graft_build_add(b, h, graft_build_cast(b, shift, b->act_dtype));
    h = linear(m, NAME("final_linear"), h, patch * patch * m->a->channels);
    return graft_stream_unpatched(b, h, rows, columns, patch);
}

static void check_shape(graft_graph *g, const graft_auraflow_arch *a, const graft_net_shape *s)
{
    graft_transformer_check_patches(g, s, a->patch);
    graft_transformer_check_side(g, s, a->patch, SIDE_MAX);
    graft_transformer_check_table(g, s, a->patch, a->table);
    graft_transformer_check_tokens(g, s, 1, SIDE_MAX);
    graft_transformer_check_skipped(g, s, a->depth + a->single_depth);
    graft_transformer_check_unchanged(g, s, s->control);
}

/* m->ones and m->zeros. */
static void make_constants(auraflow *m)
{
    const int64_t d = m->a->hidden / m->a->heads;
    float *v = graft_malloc_array((size_t)d, sizeof *v);
    for (int64_t i = 0; v && i < d; i++) v[i] = 1;
    m->ones = v ? graft_graph_const(m->b.g, GRAFT_F32, 1, &d, v)
                : graft_graph_fail(m->b.g, GRAFT_E_NOMEM, "out of memory: transformer graph");
    for (int64_t i = 0; v && i < d; i++) v[i] = 0;
    m->zeros = v ? graft_graph_const(m->b.g, GRAFT_F32, 1, &d, v) : GRAFT_NO_VALUE;
    graft_free(v);
}

graft_status graft_auraflow_build(const graft_auraflow_arch *a, const graft_net_shape *shape,
                                  graft_graph **out, graft_err *e)
{
    graft_graph *g = graft_graph_create();
    if (!g) return graft_fail_nomem(e, "transformer graph");
    const int64_t n = shape->batch, h = shape->height, w = shape->width, one = 1;
    const int64_t rows = h / a->patch, columns = w / a->patch;
    graft_vid own = GRAFT_NO_VALUE;
    auraflow m = {.b = {g, shape->act_dtype}, .a = a};
    check_shape(g, a, shape);
    const graft_vid x = graft_graph_input(g, GRAFT_F32, 4, (int64_t[]){n, a->channels, h, w});
    const graft_vid t = graft_graph_input(g, GRAFT_F32, 1, &n);
    const graft_vid c =
        graft_graph_input(g, GRAFT_F32, 3, (int64_t[]){n, shape->tokens, a->context_dim});
    m.counts = graft_auraflow_counts_tokens(shape->tokens);
    if (m.counts) own = graft_graph_input(g, GRAFT_F32, 2, (int64_t[]){n, one});
    make_constants(&m);
    condition(&m, t);
    graft_stream text = {.h = text_tokens(&m, c)};
    graft_stream picture = {.h = picture_tokens(&m, x, rows, columns)};
    const graft_vid seen = all_blocks(&m, shape, own, &text, &picture);
    graft_graph_output(g, final_layer(&m, seen, rows, columns));
    graft_status st = graft_graph_status(g, e);
    if (!st) {
        *out = g;
        return GRAFT_OK;
    }
    graft_graph_destroy(g);
    return st;
}
