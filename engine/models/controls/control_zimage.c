#include "engine/models/controls/control_zimage.h"

#include "engine/models/transformers/zimage_blocks.h"

#define NAME(...) graft_name_make(__VA_ARGS__)

void graft_control_zimage_hint(const graft_control_arch *a, int64_t batch, int64_t height,
                               int64_t width, const graft_build *b)
{
    const int32_t patch = a->zimage.patch, hidden = a->zimage.hidden;
    graft_vid v =
        graft_graph_input(b->g, GRAFT_F32, 4, (int64_t[]){batch, a->hint_channels, height, width});
    v = graft_stream_patches(b, v, patch);
    v = graft_build_linear(b, NAME("control_all_x_embedder.2-1"), v, hidden, true);
    graft_graph_output(
        b->g,
        graft_graph_reshape(b->g, v, 4, (int64_t[]){batch, height / patch, width / patch, hidden}));
}

typedef struct control {
    const graft_control_arch *a;
    const graft_control_shape *s;
    graft_zimage_blocks all, once; /* of all rows, and of `pictures` rows */
    graft_vid strength;
    /* What comes in and what goes out, in the order of all of the chain. */
    graft_vid before[GRAFT_STEERED_MOST], made[GRAFT_STEERED_MOST];
} control;

static bool alone(const control *c)
{
    return !c->a->begins_with.depth;
}

/* ------------------------------------------------------------------ residuals */

/* Of a block's residual its place among all; -1: the block has none. */
static int at(const graft_steered *s, int part, int block)
{
    const bool takes = block < GRAFT_STEERED_BLOCKS && s->begins[part] >> block & 1;
    return takes ? graft_steered_by(s, part, block) : -1;
}

static graft_vid residual_input(const control *c, int part)
{
    const graft_zimage_blocks *m = &c->all;
    const int64_t tokens = graft_zimage_cells(m) + graft_zimage_filling(m) + (part ? m->words : 0);
    const int64_t dim[4] = {c->s->batch, tokens, 1, m->a->hidden};
    graft_vid v = graft_graph_input(m->b.g, c->s->act_dtype, 4, dim);
    return graft_graph_reshape(m->b.g, v, 3, (int64_t[]){dim[0], dim[1], dim[3]});
}

static void residual_inputs(control *c)
{
    for (int part = 0; part < GRAFT_STEERED_PARTS; part++) {
        const bool given = !part && c->s->stage == GRAFT_CONTROL_SECOND_PART;
        const bool later = part && c->s->stage == GRAFT_CONTROL_FIRST_PART;
        for (int i = 0; i < GRAFT_STEERED_BLOCKS; i++) {
            const int k = at(&c->s->steered, part, i);
            const bool adds = c->s->more >> part & 1 && at(&c->s->own, part, i) >= 0;
            if (k >= 0 && (given || (adds && !later))) c->before[k] = residual_input(c, part);
        }
    }
}

/* Block `from` of the ControlNet's list gives what is added behind this one of the network. */
static void residual(control *c, int part, int block, graft_name list, int from, graft_vid h)
{
    const graft_zimage_blocks *m = &c->all;
    const int k = at(&c->s->steered, part, block);
    if (k < 0 || at(&c->s->own, part, block) < 0) return;
    graft_vid made =
        graft_build_linear(&m->b, NAME("%s.%d.after_proj", list.text, from), h, m->a->hidden, true);
    made = graft_build_mul(&m->b, made, c->strength);
    made = graft_control_wide(&m->b, made, c->s->batch);
    if (c->before[k] >= 0) made = graft_build_add(&m->b, made, c->before[k]);
    c->made[k] = made;
}

static void residual_outputs(const control *c)
{
    for (int k = 0; k < graft_steered_all(&c->s->steered); k++) {
        const graft_vid v = c->made[k];
        if (v < 0) continue;
        const int64_t n = c->s->batch, tokens = graft_build_dim(&c->all.b, v, 1);
        graft_graph_output(
            c->all.b.g,
            graft_graph_reshape(c->all.b.g, v, 4, (int64_t[]){n, tokens, 1, c->all.a->hidden}));
    }
}

/* ------------------------------------------------------------------ blocks */

/* The network's block behind which block i of the second part counts. */
static int place(const control *c, int i)
{
    const int32_t own = c->a->zimage.depth, all = c->a->begins_with.depth;
    return alone(c) ? i : i * (all / own);
}

/* The hint's stream joins the network's. */
static void join(const graft_zimage_blocks *m, const char *list, graft_zimage_sequence *q,
                 graft_vid stream)
{
    q->s.h = graft_build_linear(&m->b, NAME("%s.0.before_proj", list), q->s.h, m->a->hidden, true);
    q->s.h = graft_build_add(&m->b, q->s.h, stream);
}

/* The picture's part; hint: its stream, which may stay as it is. */
static void refine(control *c, graft_zimage_sequence *hint, graft_vid picture)
{
    const graft_zimage_blocks *m = &c->once;
    const bool twice = c->a->refining == GRAFT_CONTROL_REFINES_TWICE;
    const char *list = twice ? "control_layers" : "control_noise_refiner";
    const int32_t depth = twice ? c->a->zimage.depth : c->a->zimage.noise_depth;
    const bool steers = c->a->refining != GRAFT_CONTROL_REFINES_HINT;
    if (steers) join(m, list, hint, picture);
    for (int i = 0; i < depth; i++) {
        graft_zimage_block(m, list, i, hint);
        if (steers && c->s->stage != GRAFT_CONTROL_SECOND_PART)
            residual(c, 0, i, NAME("%s", list), i, hint->s.h);
    }
}

/* The network's own, as all of the chain steer it. Its residuals are those of all rows, which are
 * alike where they stand for the same picture. */
static void network_refines(const control *c, graft_zimage_sequence *q)
{
    const graft_zimage_blocks *m = &c->once;
    for (int i = 0; i < c->a->begins_with.noise_depth; i++) {
        const int k = at(&c->s->steered, 0, i);
        graft_zimage_block(m, "noise_refiner", i, q);
        graft_vid v = k < 0 ? GRAFT_NO_VALUE : c->made[k] >= 0 ? c->made[k] : c->before[k];
        if (v < 0) continue;
        if (graft_build_dim(&m->b, v, 0) > c->s->pictures)
            v = graft_graph_slice_rows(m->b.g, v, 0, c->s->pictures);
        q->s.h = graft_build_add(&m->b, q->s.h, v);
    }
}

static void steer_layers(control *c, graft_vid hint, graft_vid picture, graft_vid text)
{
    const graft_zimage_blocks *m = &c->all;
    graft_zimage_sequence q = {.words = true, .picture = true, .told = true};
    hint = graft_control_wide(&m->b, hint, c->s->batch);
    picture = graft_control_wide(&m->b, picture, c->s->batch);
    q.s.h = graft_build_join(&m->b, text, hint);
    join(m, "control_layers", &q, graft_build_join(&m->b, text, picture));
    for (int i = 0; i < c->a->zimage.depth; i++) {
        graft_zimage_block(m, "control_layers", i, &q);
        residual(c, 1, place(c, i), NAME("control_layers"), i, q.s.h);
    }
}

/* ------------------------------------------------------------------ all of it */

/* What the network makes before any block of the picture. */
typedef struct inputs {
    graft_vid x, t, context, y;
} inputs;

static inputs take_inputs(const control *c)
{
    const graft_control_shape *s = c->s;
    const graft_zimage_arch *a = c->all.a;
    graft_graph *g = c->all.b.g;
    const int64_t n = s->batch, stream[3] = {n, GRAFT_ZIMAGE_TOKENS, a->hidden};
    if (alone(c))
        return (inputs){graft_graph_input(g, s->act_dtype, 3, stream),
                        graft_graph_input(g, s->act_dtype, 2, (int64_t[]){n, a->told}),
                        graft_graph_input(g, s->act_dtype, 3, stream), GRAFT_NO_VALUE};
    return (inputs){
        graft_graph_input(g, GRAFT_F32, 4, (int64_t[]){n, a->channels, s->height, s->width}),
        graft_graph_input(g, GRAFT_F32, 1, &n),
        graft_graph_input(g, GRAFT_F32, 3, (int64_t[]){n, s->tokens, a->context_dim}),
        graft_graph_input(g, GRAFT_F32, 2, (int64_t[]){n, GRAFT_ZIMAGE_TOKENS})};
}

static void all_blocks(control *c, const inputs *in, graft_vid features)
{
    const graft_control_shape *s = c->s;
    graft_graph *g = c->all.b.g;
    graft_zimage_sequence text = {.words = true, .s.h = in->context};
    graft_zimage_sequence hint = {.picture = true, .told = true}, picture = hint;
    if (!alone(c)) graft_zimage_prompt(&c->all, in->context, in->y, &text);
    const graft_vid like = graft_graph_slice_rows(g, text.s.h, 0, s->pictures);
    picture.s.h = graft_graph_slice_rows(g, in->x, 0, s->pictures);
    if (!alone(c)) picture.s.h = graft_zimage_picture(&c->once, picture.s.h, like);
    hint.s.h = graft_zimage_filled(&c->once, features, like);
    refine(c, &hint, picture.s.h);
    if (s->stage == GRAFT_CONTROL_FIRST_PART) return;
    network_refines(c, &picture);
    steer_layers(c, hint.s.h, picture.s.h, text.s.h);
}

void graft_control_zimage(const graft_control_arch *a, const graft_control_shape *s,
                          const graft_build *b)
{
    control c = {.a = a, .s = s};
    graft_graph *g = b->g;
    for (int i = 0; i < GRAFT_STEERED_MOST; i++) c.before[i] = c.made[i] = GRAFT_NO_VALUE;
    c.all = (graft_zimage_blocks){.b = *b,
                                  .a = alone(&c) ? &a->zimage : &a->begins_with,
                                  .words = s->tokens,
                                  .rows = (int32_t)(s->height / a->zimage.patch),
                                  .columns = (int32_t)(s->width / a->zimage.patch)};
    c.once = c.all;
    const inputs in = take_inputs(&c);
    const int64_t cells = graft_zimage_cells(&c.all), hidden = c.all.a->hidden;
    graft_vid features = graft_graph_input(
        g, s->act_dtype, 4, (int64_t[]){s->pictures, c.all.rows, c.all.columns, hidden});
    features = graft_graph_reshape(g, features, 3, (int64_t[]){s->pictures, cells, hidden});
    c.strength = graft_graph_input(g, GRAFT_F32, 1, (int64_t[]){1});
    c.strength = graft_graph_reshape(g, c.strength, 3, (int64_t[]){1, 1, 1});
    residual_inputs(&c);
    c.all.told = alone(&c) ? in.t : graft_zimage_time(&c.all, in.t);
    c.once.told = graft_graph_slice_rows(g, c.all.told, 0, s->pictures);
    all_blocks(&c, &in, features);
    residual_outputs(&c);
}
