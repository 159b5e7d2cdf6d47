#include "engine/models/unets/unet.h"

#include <assert.h>
#include <string.h>

#include "engine/models/parts/resize.h"
#include "engine/models/unets/unet_blocks.h"

#define NAME(...) graft_name_make(__VA_ARGS__)

/* What comes into a graph besides x, timesteps, context and y. */
typedef struct extra_inputs {
    graft_vid feature;                        /* FAST; otherwise set to the value to store */
    graft_vid residual[GRAFT_UNET_RESIDUALS]; /* with control */
    graft_vid adapter[GRAFT_UNET_RESIDUALS];  /* by place; GRAFT_NO_VALUE where there is none */
    graft_vid freeu;                          /* the factors, or GRAFT_NO_VALUE */
} extra_inputs;

static graft_vid controlled(const graft_unet_blocks *u, const graft_net_shape *shape, graft_vid h,
                            graft_vid residual)
{
    h = graft_unet_wide(u, h);
    return shape->control ? graft_build_add(&u->b, h, graft_unet_wide(u, residual)) : h;
}

/* h with what T2I-Adapters add to it. */
static graft_vid adapted(const graft_unet_blocks *u, graft_vid h, graft_vid feature)
{
    if (feature < 0) return h;
    return graft_build_add(&u->b, graft_unet_wide(u, h), graft_unet_wide(u, feature));
}

/* ------------------------------------------------------------------ FreeU */

/* Which of the factors count for features of so many channels: 0 the first ones, 1 the second; -1:
 * none. */
static int freeu_level(const graft_unet_arch *a, int64_t channels)
{
    return channels == 4 * (int64_t)a->model_channels   ? 0
           : channels == 2 * (int64_t)a->model_channels ? 1
                                                        : -1;
}

/* Channels of what comes into output block i, before the skip connection joins. */
static int32_t channels_before(const graft_unet_arch *a, int i)
{
    return i > 0 ? a->output[i - 1].channels : a->input[a->n_input - 1].channels;
}

/* The first output block that is computed. */
static int first_output(const graft_unet_arch *a, const graft_net_shape *shape)
{
    return shape->variant == GRAFT_FAST ? a->n_output - 1 - shape->cut : 0;
}

bool graft_unet_freeu(const graft_unet_arch *a, const graft_net_shape *shape)
{
    if (shape->freeu == GRAFT_FREEU_OFF) return false;
    for (int i = first_output(a, shape); i < a->n_output; i++)
        if (freeu_level(a, channels_before(a, i)) >= 0) return true;
    return false;
}

static graft_vid scaled(const graft_build *b, graft_op op, graft_vid x, graft_vid factor)
{
    graft_vid in[2] = {x, factor};
    return graft_graph_node(b->g, op, NULL, in, 2, GRAFT_DTYPE_NONE);
}

/* The first half of the channels times one factor. */
static graft_vid half_scaled(const graft_build *b, graft_vid h, graft_vid factor)
{
    int64_t channels = graft_build_dim(b, h, 3);
    factor = graft_graph_reshape(b->g, factor, 4, (const int64_t[4]){1, 1, 1, 1});
    graft_vid first = graft_graph_slice(b->g, h, 0, channels / 2);
    graft_vid rest = graft_graph_slice(b->g, h, channels / 2, channels - channels / 2);
    return graft_build_concat(b, graft_build_mul(b, first, factor), rest);
}

/* What an output block takes of the features so far and a skip connection. */
static graft_vid joined(const graft_build *b, const graft_unet_arch *a,
                        const graft_net_shape *shape, graft_vid h, graft_vid skip, graft_vid freeu)
{
    int level = freeu_level(a, graft_build_dim(b, h, 3));
    if (freeu >= 0 && level >= 0) {
        graft_vid backbone = graft_graph_slice(b->g, freeu, GRAFT_FREEU_B1 + level, 1);
        graft_vid low = graft_graph_slice(b->g, freeu, GRAFT_FREEU_S1 + level, 1);
        h = shape->freeu == GRAFT_FREEU_V1 ? half_scaled(b, h, backbone)
                                           : scaled(b, GRAFT_OP_MEAN_SCALE, h, backbone);
        skip = scaled(b, GRAFT_OP_LOW_SCALE, skip, low);
    }
    return graft_build_concat(b, h, skip);
}

/* ------------------------------------------------------------------ merged tokens */

int32_t graft_unet_merged(const graft_unet_arch *a, const graft_net_shape *shape, int32_t merged)
{
    const bool fast = shape->variant == GRAFT_FAST;
    const int computed = fast ? shape->cut + 1 : a->n_input;
    const graft_grid grid = shape->grid[0];
    const bool tiles = grid.rows > 0 && grid.columns > 0;
    bool has = false;
    for (int i = 0; i < computed && !a->input[i].down; i++) has |= a->input[i].transformer > 0;
    for (int i = a->n_output - 1; i >= first_output(a, shape) && !a->output[i].up; i--)
        has |= a->output[i].transformer > 0;
    if (!has || shape->shrink.block ||
        !graft_unet_merged_of(shape->height / (tiles ? grid.rows : 1),
                              shape->width / (tiles ? grid.columns : 1), merged))
        return 0;
    return merged;
}

/* ------------------------------------------------------------------ Deep Shrink */

static int64_t shrunk_side(const graft_shrink *s, int64_t side)
{
    int64_t small = (side * 2000 + s->thousandths) / (2 * (int64_t)s->thousandths);
    return small > 1 ? small : 1;
}

static graft_vid shrunk(const graft_build *b, const graft_shrink *s, graft_vid h)
{
    if (h < 0) return h; /* the factor may be what is wrong */
    return graft_build_resize(b, h, shrunk_side(s, graft_build_dim(b, h, 1)),
                              shrunk_side(s, graft_build_dim(b, h, 2)),
                              (graft_resize_method)s->down);
}

/* Whether features of `side` cells become `next` where an output block doubles its size. */
static bool doubles_to(int64_t side, int64_t next)
{
    return next == 2 * side || next == 2 * side - 1;
}

/* What output block i makes of h: as large as the next skip connection where that is twice as
 * large, which no shrinking is in the way of. */
static graft_vid output_block(graft_unet_blocks *u, int i, graft_vid h, graft_vid next)
{
    const graft_build *b = &u->b;
    bool fits = next >= 0 && doubles_to(graft_build_dim(b, h, 1), graft_build_dim(b, next, 1)) &&
                doubles_to(graft_build_dim(b, h, 2), graft_build_dim(b, next, 2));
    return graft_unet_output_block(u, i, h, fits ? next : GRAFT_NO_VALUE);
}

/* ------------------------------------------------------------------ pictures beside the prompt */

/* The input, where there are any. */
static void attend(graft_unet_blocks *u, const graft_net_shape *shape)
{
    const int64_t tokens = graft_attended_tokens(&shape->attended);
    if (!tokens) return;
    u->attended.shape = shape->attended;
    graft_crossings_of(u->a, &u->attended.crossings);
    const graft_crossings *c = &u->attended.crossings;
    if (!c->n) {
        graft_graph_fail(u->b.g, GRAFT_E_ARG,
                         "a UNet whose cross-attentions are none, or too many");
        return;
    }
    const int64_t values = 2 * shape->batch * tokens * graft_crossings_before(c, c->n);
    u->attended.values =
        graft_build_cast(&u->b, graft_graph_input(u->b.g, GRAFT_F32, 1, &values), shape->act_dtype);
    if (!shape->attended.masked) return;
    int64_t side[GRAFT_CROSSING_BLOCKS][2], cells = 0;
    const int n = graft_unet_sides(u->a, shape, side);
    for (int i = 0; i < n; i++) {
        u->attended.cells[i] = cells;
        cells += side[i][0] * side[i][1];
    }
    u->attended.all_cells = cells;
    cells *= shape->batch * __builtin_popcount(shape->attended.masked);
    u->attended.masks =
        graft_build_cast(&u->b, graft_graph_input(u->b.g, GRAFT_F32, 1, &cells), shape->act_dtype);
}

static void take_boxes(graft_unet_blocks *u, const graft_net_shape *shape)
{
    const int64_t dim[3] = {shape->batch, GRAFT_GLIGEN_TOKENS, shape->boxes};
    if (!shape->boxes) return;
    u->boxes =
        graft_build_cast(&u->b, graft_graph_input(u->b.g, GRAFT_F32, 3, dim), shape->act_dtype);
}

static void check_shrink(graft_graph *g, const graft_unet_arch *a, const graft_net_shape *shape)
{
    const graft_shrink *s = &shape->shrink;
    if (s->block < 0 || s->block >= a->n_input || (s->block > 0 && s->thousandths < 1) ||
        (s->block > 0 && shape->merged) ||
        (s->block > 0 && (shape->variant != GRAFT_WHOLE || shape->control || shape->adapted)))
        graft_graph_fail(g, GRAFT_E_ARG, "input block %d of %d cannot be shrunk so", s->block,
                         a->n_input);
}

static void check_watched(graft_graph *g, const graft_unet_arch *a, const graft_net_shape *shape)
{
    const int64_t from = shape->watched_from, rows = shape->watched;
    if (!from && !rows) return;
    if (from < 0 || rows < 1 || from > shape->batch - rows || !graft_unet_perturbs(a) ||
        shape->variant == GRAFT_FAST)
        graft_graph_fail(g, GRAFT_E_ARG, "%lld of %lld rows cannot be looked at from row %lld on",
                         (long long)rows, (long long)shape->batch, (long long)from);
}

int graft_unet_sides(const graft_unet_arch *a, const graft_net_shape *shape,
                     int64_t side[GRAFT_CROSSING_BLOCKS][2])
{
    int64_t skip[GRAFT_MAX_BLOCKS][2], at[2] = {shape->height, shape->width};
    const graft_shrink *s = &shape->shrink;
    int n = 0;
    for (int i = 0; i < a->n_input; i++) {
        for (int k = 0; k < 2 && a->input[i].down; k++) at[k] = (at[k] + 1) / 2;
        if (a->input[i].transformer) memcpy(side[n++], at, sizeof at);
        memcpy(skip[i], at, sizeof at);
        for (int k = 0; k < 2 && i > 0 && i == s->block; k++) at[k] = shrunk_side(s, at[k]);
        if (s->before_skip) memcpy(skip[i], at, sizeof at);
    }
    for (int i = 0; i < a->n_output; i++)
        if (a->output[i].transformer) memcpy(side[n++], skip[a->n_input - 1 - i], sizeof at);
    if (a->middle_transformer) memcpy(side[n++], at, sizeof at);
    return n;
}

/* T2I-Adapters' features, as inputs. */
static void take_features(graft_graph *g, const graft_unet_arch *a, const graft_net_shape *shape,
                          extra_inputs *in)
{
    int32_t place[GRAFT_UNET_PLACES];
    int64_t dim[4];
    const int n = graft_unet_places(a, place);
    for (int i = 0; i <= a->n_input; i++) in->adapter[i] = GRAFT_NO_VALUE;
    if (shape->adapted < 0 || shape->adapted > n)
        graft_graph_fail(g, GRAFT_E_ARG, "%d features of T2I-Adapters for %d places",
                         shape->adapted, n);
    for (int k = 0; k < graft_unet_features(a, shape); k++) {
        graft_unet_residual_shape(a, shape, place[k], dim);
        in->adapter[place[k]] = graft_graph_input(g, shape->act_dtype, 4, dim);
    }
}

/* ------------------------------------------------------------------ the whole */

static graft_vid blocks(graft_unet_blocks *u, const graft_net_shape *shape, graft_vid h,
                        extra_inputs *in)
{
    graft_vid skip[GRAFT_MAX_BLOCKS];
    const graft_unet_arch *a = u->a;
    bool fast = shape->variant == GRAFT_FAST;
    int computed = fast ? shape->cut + 1 : a->n_input;
    const graft_shrink *s = &shape->shrink;
    for (int i = 0; i < computed; i++) {
        h = adapted(u, graft_unet_input_block(u, i, h), in->adapter[i]);
        skip[i] = h;
        if (i > 0 && i == s->block) h = shrunk(&u->b, s, h);
        if (s->before_skip) skip[i] = h;
    }
    if (fast && u->perturbed) graft_unet_part(u);
    if (!fast) h = adapted(u, graft_unet_middle_block(u, h), in->adapter[a->n_input]);
    h = fast ? in->feature : controlled(u, shape, h, in->residual[a->n_input]);
    for (int i = first_output(a, shape); i < a->n_output; i++) {
        int same = a->n_input - 1 - i;
        if (shape->variant == GRAFT_STORE && same == shape->cut) in->feature = h;
        graft_vid skipped = controlled(u, shape, skip[same], in->residual[same]);
        if (s->block)
            h = graft_build_resize(&u->b, h, graft_build_dim(&u->b, skipped, 1),
                                   graft_build_dim(&u->b, skipped, 2), (graft_resize_method)s->up);
        h = joined(&u->b, a, shape, h, skipped, in->freeu);
        h = output_block(u, i, h, same > 0 ? skip[same - 1] : GRAFT_NO_VALUE);
    }
    return s->block ? graft_build_resize(&u->b, h, shape->height, shape->width,
                                         (graft_resize_method)s->up)
                    : h;
}

int graft_unet_residuals(const graft_unet_arch *a, const graft_net_shape *shape)
{
    if (!shape->control) return 0;
    return shape->variant == GRAFT_FAST ? shape->cut + 1 : a->n_input + 1;
}

int graft_unet_places(const graft_unet_arch *a, int32_t place[GRAFT_UNET_PLACES])
{
    int n = 0;
    for (int i = 1; i < a->n_input; i++) {
        const bool last = i + 1 == a->n_input || a->input[i + 1].down;
        if (a->input[i].down ? !a->input[i - 1].transformer
                             : last && (a->input[i].transformer || i + 1 == a->n_input))
            place[n++] = i;
    }
    place[n++] = a->n_input;
    return n;
}

int graft_unet_features(const graft_unet_arch *a, const graft_net_shape *shape)
{
    int32_t place[GRAFT_UNET_PLACES];
    int n = graft_unet_places(a, place), taken = 0;
    while (taken < shape->adapted && taken < n &&
           (shape->variant != GRAFT_FAST || place[taken] <= shape->cut))
        taken++;
    return taken;
}

void graft_unet_residual_shape(const graft_unet_arch *a, const graft_net_shape *shape, int i,
                               int64_t dim[4])
{
    dim[0] = shape->batch;
    dim[1] = shape->height;
    dim[2] = shape->width;
    dim[3] = 0;
    for (int k = 0; k <= i && k < a->n_input; k++) {
        if (!a->input[k].down) {
            dim[3] = a->input[k].channels;
            continue;
        }
        dim[1] = (dim[1] + 1) / 2; /* kernel 3, stride 2, padding 1 */
        dim[2] = (dim[2] + 1) / 2;
    }
}

void graft_unet_feature_shape(const graft_unet_arch *a, const graft_net_shape *shape,
                              int64_t dim[4])
{
    int before = a->n_output - 2 - shape->cut; /* the output block that makes it */
    graft_unet_residual_shape(a, shape, shape->cut, dim);
    dim[0] += shape->perturbed;
    if (before >= 0) dim[3] = a->output[before].channels;
}

graft_status graft_unet_cut(const graft_unet_arch *a, int64_t level, int64_t block, int32_t *cut,
                            graft_err *e)
{
    int first[GRAFT_MAX_BLOCKS + 1], levels = 1;
    first[0] = 1;
    for (int i = 1; i < a->n_input; i++)
        if (a->input[i].down) first[levels++] = i + 1;
    first[levels] = a->n_input;
    if (level < 0 || level >= levels)
        return graft_fail(e, GRAFT_E_ARG,
                          "cache_layer_id %lld is out of range: this model has resolution levels 0 "
                          "to %d",
                          (long long)level, levels - 1);
    int count = first[level + 1] - first[level];
    if (block < 0 || block >= count)
        return graft_fail(
            e, GRAFT_E_ARG,
            "cache_block_id %lld is out of range: level %lld of this model has blocks "
            "0 to %d",
            (long long)block, (long long)level, count - 1);
    *cut = first[level] + (int)block;
    return GRAFT_OK;
}

bool graft_unet_perturbs(const graft_unet_arch *a)
{
    return a->middle_transformer > 0;
}

bool graft_unet_middle_of(const graft_unet_arch *a, const graft_net_shape *shape,
                          graft_unet_middle *out)
{
    int64_t side[GRAFT_CROSSING_BLOCKS][2];
    const int n = graft_unet_sides(a, shape, side);
    const int32_t channels = a->input[a->n_input - 1].channels;
    if (!graft_unet_perturbs(a)) return false;
    *out = (graft_unet_middle){side[n - 1][0], side[n - 1][1], channels,
                               a->num_heads ? a->num_heads : channels / a->head_dim};
    return true;
}

graft_status graft_unet_build(const graft_unet_arch *a, const graft_net_shape *shape,
                              graft_graph **out, graft_err *e)
{
    return graft_unet_build_guided(a, shape, shape->batch, out, e);
}

graft_status graft_unet_build_guided(const graft_unet_arch *a, const graft_net_shape *shape,
                                     int64_t pictures, graft_graph **out, graft_err *e)
{
    graft_graph *g = graft_graph_create();
    if (!g) return graft_fail_nomem(e, "UNet graph");
    graft_unet_blocks u = {.b = {g, shape->act_dtype},
                           .a = a,
                           .emb = GRAFT_NO_VALUE,
                           .context = GRAFT_NO_VALUE,
                           .batch = shape->batch,
                           .boxes = GRAFT_NO_VALUE,
                           .perturbed = shape->perturbed,
                           .watched = {.from = shape->watched_from,
                                       .rows = shape->watched,
                                       .q = GRAFT_NO_VALUE,
                                       .k = GRAFT_NO_VALUE},
                           .grid = shape->grid,
                           .merging = {.merged = shape->merged}};
    const int64_t n = shape->batch, one[] = {1};
    u.hyper = (struct graft_unet_hyper){.arch = shape->hyper.n_widths ? &shape->hyper : NULL,
                                        .strength = GRAFT_NO_VALUE,
                                        .context = GRAFT_NO_VALUE};
    assert(pictures > 0 && n % pictures == 0);
    if (shape->perturbed < 0 || shape->perturbed > n ||
        (shape->perturbed && !graft_unet_perturbs(a)))
        graft_graph_fail(g, GRAFT_E_ARG, "%lld of %lld rows cannot be perturbed",
                         (long long)shape->perturbed, (long long)n);
    check_watched(g, a, shape);
    check_shrink(g, a, shape);
    graft_vid x = graft_graph_input(g, GRAFT_F32, 4,
                                    (int64_t[]){n, a->in_channels, shape->height, shape->width});
    graft_vid t = graft_graph_input(g, GRAFT_F32, 1, &n);
    graft_vid c = graft_graph_input(g, GRAFT_F32, 3, (int64_t[]){n, shape->tokens, a->context_dim});
    graft_vid y = GRAFT_NO_VALUE;
    if (a->adm_channels) y = graft_graph_input(g, GRAFT_F32, 2, (int64_t[]){n, a->adm_channels});
    extra_inputs more = {.feature = GRAFT_NO_VALUE, .freeu = GRAFT_NO_VALUE};
    int64_t dim[4];
    if (shape->variant == GRAFT_FAST) {
        graft_unet_feature_shape(a, shape, dim);
        more.feature = graft_graph_input(g, shape->act_dtype, 4, dim);
    }
    for (int i = 0; i < graft_unet_residuals(a, shape); i++) {
        graft_unet_residual_shape(a, shape, i, dim);
        more.residual[i] = graft_graph_input(g, shape->act_dtype, 4, dim);
    }
    take_features(g, a, shape, &more);
    attend(&u, shape);
    take_boxes(&u, shape);
    if (shape->hyper.n_widths) u.hyper.strength = graft_graph_input(g, GRAFT_F32, 1, one);
    if (graft_unet_freeu(a, shape))
        more.freeu = graft_graph_input(g, GRAFT_F32, 1, (int64_t[]){GRAFT_FREEU_FACTORS});
    u.context = graft_build_cast(&u.b, c, shape->act_dtype);
    u.emb = graft_unet_time_embedding(&u, t, y, GRAFT_NO_VALUE);
    /* y is each row's own, and all that follows the time embedding with it. */
    if (!a->adm_channels && pictures < n) x = graft_graph_slice_rows(g, x, 0, pictures);
    graft_vid h = blocks(&u, shape, graft_build_to_nhwc(&u.b, x, shape->act_dtype), &more);
    h = graft_build_group_norm(&u.b, NAME("out.0"), h, 1e-5f);
    h = graft_build_act(&u.b, h, GRAFT_ACT_SILU);
    h = graft_build_conv3(&u.b, NAME("out.2"), h, a->out_channels);
    graft_graph_output(g, graft_build_to_nchw(&u.b, h, GRAFT_F32));
    if (shape->variant == GRAFT_STORE) graft_graph_output(g, more.feature);
    if (shape->watched) graft_graph_output(g, u.watched.q);
    if (shape->watched) graft_graph_output(g, u.watched.k);
    graft_status st = graft_graph_status(g, e);
    if (st)
        graft_graph_destroy(g);
    else
        *out = g;
    return st;
}
