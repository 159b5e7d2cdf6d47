#include "engine/models/vaes/upscaler.h"

#include "engine/models/parts/build.h"

#define NAME(...) graft_name_make(__VA_ARGS__)

/* What a block adds to its input is made smaller by this, so that many blocks stay stable. */
static const float damp = 0.2f;

/* ------------------------------------------------------------------ names */

typedef enum layer {
    CONV_FIRST,
    CONV_BODY,
    CONV_UP, /* number `index`, from 0 */
    CONV_HR,
    CONV_LAST
} layer;

static graft_name layer_name(const graft_upscaler_arch *a, layer which, int index)
{
    static const char *const new_names[] = {"conv_first", "conv_body", "conv_up", "conv_hr",
                                            "conv_last"};
    static const char *const trunk_names[] = {"conv_first", "trunk_conv", "upconv", "HRconv",
                                              "conv_last"};
    if (a->names != GRAFT_UPSCALER_SEQUENTIAL) {
        const char *name = (a->names == GRAFT_UPSCALER_TRUNK ? trunk_names : new_names)[which];
        return which == CONV_UP ? NAME("%s%d", name, index + 1) : NAME("%s", name);
    }
    /* Numbers in a row of layers: an up-sampling, its convolution and its activation are three. */
    switch (which) {
    case CONV_FIRST:
        return NAME("model.0");
    case CONV_BODY:
        return NAME("model.1.sub.%d", a->blocks);
    case CONV_UP:
        return NAME("model.%d", 3 + 3 * index);
    case CONV_HR:
        return NAME("model.%d", 2 + 3 * a->doublings);
    default:
        return NAME("model.%d", 4 + 3 * a->doublings);
    }
}

static graft_name dense_name(const graft_upscaler_arch *a, int block, int dense, int conv)
{
    switch (a->names) {
    case GRAFT_UPSCALER_SEQUENTIAL:
        return NAME("model.1.sub.%d.RDB%d.conv%d.0", block, dense, conv);
    case GRAFT_UPSCALER_TRUNK:
        return NAME("RRDB_trunk.%d.RDB%d.conv%d", block, dense, conv);
    default:
        return NAME("body.%d.rdb%d.conv%d", block, dense, conv);
    }
}

/* ------------------------------------------------------------------ pixels and channels */

/* Squares of f x f pixels become channels: channel c of the pixel at row i, column j of a square is
 * number (c * f + i) * f + j. */
static graft_vid unshuffle(const graft_build *b, graft_vid x, int64_t f)
{
    int64_t n = graft_build_dim(b, x, 0), h = graft_build_dim(b, x, 1) / f,
            w = graft_build_dim(b, x, 2) / f, c = graft_build_dim(b, x, 3);
    x = graft_build_exchanged(b, x, (const int64_t[4]){n * h, f, w, f * c}, GRAFT_DTYPE_NONE);
    x = graft_build_exchanged(b, x, (const int64_t[4]){n * h * w, f * f, c, 1}, GRAFT_DTYPE_NONE);
    return graft_graph_reshape(b->g, x, 4, (const int64_t[4]){n, h, w, c * f * f});
}

/* The inverse. */
static graft_vid shuffle(const graft_build *b, graft_vid x, int64_t f)
{
    int64_t n = graft_build_dim(b, x, 0), h = graft_build_dim(b, x, 1),
            w = graft_build_dim(b, x, 2), c = graft_build_dim(b, x, 3) / (f * f);
    x = graft_build_exchanged(b, x, (const int64_t[4]){n * h * w, c, f * f, 1}, GRAFT_DTYPE_NONE);
    x = graft_build_exchanged(b, x, (const int64_t[4]){n * h, w, f, f * c}, GRAFT_DTYPE_NONE);
    return graft_graph_reshape(b->g, x, 4, (const int64_t[4]){n, h * f, w * f, c});
}

static graft_vid enlarge(const graft_build *b, graft_vid x, int64_t f)
{
    return graft_build_upsample(b, x, graft_build_dim(b, x, 1) * f, graft_build_dim(b, x, 2) * f);
}

/* ------------------------------------------------------------------ networks */

static graft_vid leaky_conv(const graft_build *b, graft_name name, graft_vid x, int32_t channels)
{
    return graft_build_act(b, graft_build_conv3(b, name, x, channels), GRAFT_ACT_LEAKY);
}

/* x + damp * y */
static graft_vid damped(const graft_build *b, graft_vid x, graft_vid y)
{
    return graft_build_add(b, graft_build_scale(b, y, damp, 0), x);
}

static graft_vid dense_block(const graft_build *b, const graft_upscaler_arch *a, int block,
                             int dense, graft_vid x)
{
    graft_vid seen = x;
    for (int k = 1; k < 5; k++)
        seen = graft_build_concat(b, seen,
                                  leaky_conv(b, dense_name(a, block, dense, k), seen, a->growth));
    return damped(b, x, graft_build_conv3(b, dense_name(a, block, dense, 5), seen, a->features));
}

static graft_vid rrdb(const graft_build *b, const graft_upscaler_arch *a, graft_vid x)
{
    int32_t f = a->features;
    x = graft_build_cast(b, x, b->act_dtype);
    if (a->unshuffle > 1) x = unshuffle(b, x, a->unshuffle);
    graft_vid first = graft_build_conv3(b, layer_name(a, CONV_FIRST, 0), x, f), h = first;
    for (int i = 0; i < a->blocks; i++) {
        graft_vid y = h;
        for (int k = 1; k <= 3; k++) y = dense_block(b, a, i, k, y);
        h = damped(b, h, y);
    }
    h = graft_build_add(b, graft_build_conv3(b, layer_name(a, CONV_BODY, 0), h, f), first);
    for (int i = 0; i < a->doublings; i++)
        h = leaky_conv(b, layer_name(a, CONV_UP, i), enlarge(b, h, 2), f);
    h = leaky_conv(b, layer_name(a, CONV_HR, 0), h, f);
    h = graft_build_conv3(b, layer_name(a, CONV_LAST, 0), h, GRAFT_UPSCALER_CHANNELS);
    return graft_build_cast(b, h, GRAFT_F32);
}

static graft_vid compact(const graft_build *b, const graft_upscaler_arch *a, graft_vid x)
{
    graft_vid h = graft_build_cast(b, x, b->act_dtype);
    const int64_t slopes[1] = {a->features};
    for (int i = 0; i <= a->blocks; i++) {
        h = graft_build_conv3(b, NAME("body.%d", 2 * i), h, a->features);
        graft_vid in[2] = {
            h, graft_graph_weight(b->g, NAME("body.%d.weight", 2 * i + 1).text, 1, slopes)};
        h = h < 0 ? h : graft_graph_node(b->g, GRAFT_OP_PRELU, NULL, in, 2, GRAFT_DTYPE_NONE);
    }
    h = graft_build_conv3(b, NAME("body.%d", 2 * a->blocks + 2), h,
                          GRAFT_UPSCALER_CHANNELS * a->factor * a->factor);
    h = graft_build_cast(b, h, GRAFT_F32);
    if (a->factor > 1) {
        h = shuffle(b, h, a->factor);
        x = enlarge(b, x, a->factor);
    }
    return graft_build_add(b, h, x);
}

graft_status graft_upscaler_build(const graft_upscaler_arch *a, int64_t height, int64_t width,
                                  graft_dtype act_dtype, graft_graph **out, graft_err *e)
{
    const graft_build b = {graft_graph_create(), act_dtype};
    const int64_t dim[4] = {1, height, width, GRAFT_UPSCALER_CHANNELS};
    if (!b.g) return graft_fail_nomem(e, "upscaler graph");
    graft_vid x = graft_graph_input(b.g, GRAFT_F32, 4, dim);
    graft_graph_output(b.g, a->kind == GRAFT_UPSCALER_RRDB ? rrdb(&b, a, x) : compact(&b, a, x));
    graft_status st = graft_graph_status(b.g, e);
    if (st)
        graft_graph_destroy(b.g);
    else
        *out = b.g;
    return st;
}
