#include "engine/models/controls/t2i_adapter.h"

#include "engine/models/parts/resize.h"
#include "engine/models/unets/unet.h"

#define NAME(...) graft_name_make(__VA_ARGS__)
#define CELL      8 /* pixels of the latent's cells a side */

/* ------------------------------------------------------------------ names */

/* What comes before and behind the residual blocks of feature k. */
static graft_name side_name(const graft_t2i_arch *a, int k, const char *layer)
{
    const bool flat = !a->light && !a->diffusers;
    return NAME("body.%d.%s", flat ? k * a->blocks : k, layer);
}

static graft_name block_name(const graft_t2i_arch *a, int k, int block, const char *layer)
{
    if (a->diffusers) return NAME("body.%d.resnets.%d.%s", k, block, layer);
    if (a->light) return NAME("body.%d.body.%d.%s", k, block, layer);
    return NAME("body.%d.%s", k * a->blocks + block, layer);
}

/* ------------------------------------------------------------------ layers */

static bool halves(const graft_t2i_arch *a, int k)
{
    return a->factor == CELL ? k > 0 : k == 2;
}

/* x with its last row or column, which is of `last` values at the end of `dim`'s last dimension,
 * once more. */
static graft_vid with_last(const graft_build *b, graft_vid x, const int64_t dim[4], int64_t last)
{
    x = graft_graph_reshape(b->g, x, 4, dim);
    return graft_build_concat(b, x, graft_graph_slice(b->g, x, dim[3] - last, last));
}

/* The mean of 2x2 places is that of what there is where the missing ones are the last ones again.
 */
static graft_vid halved(const graft_build *b, graft_vid x)
{
    const int64_t n = graft_build_dim(b, x, 0), h = graft_build_dim(b, x, 1);
    const int64_t w = graft_build_dim(b, x, 2), c = graft_build_dim(b, x, 3);
    const int64_t high = h + h % 2, wide = w + w % 2;
    if (x < 0) return x;
    if (wide > w) x = with_last(b, x, (const int64_t[4]){n, h, 1, w * c}, c);
    if (high > h) x = with_last(b, x, (const int64_t[4]){n, 1, 1, h * wide * c}, wide * c);
    x = graft_graph_reshape(b->g, x, 4, (const int64_t[4]){n, high, wide, c});
    return graft_build_resize(b, x, high / 2, wide / 2, GRAFT_RESIZE_AREA);
}

static graft_vid conv(const graft_build *b, graft_name name, graft_vid x, int32_t channels,
                      int32_t kernel)
{
    const int32_t pad = kernel / 2;
    return graft_build_conv(b, name, x,
                            (graft_conv_spec){channels, kernel, 1, {pad, pad, pad, pad}});
}

/* Feature k of the one before, or of the picture. */
static graft_vid feature(const graft_build *b, const graft_t2i_arch *a, int k, graft_vid x)
{
    const int32_t width = a->light ? a->channels[k] / 4 : a->channels[k];
    if (halves(a, k)) x = halved(b, x);
    if (a->light || graft_build_dim(b, x, 3) != width)
        x = conv(b, side_name(a, k, "in_conv"), x, width, a->kernel);
    for (int i = 0; i < a->blocks; i++) {
        graft_vid h = graft_build_conv3(b, block_name(a, k, i, "block1"), x, width);
        h = graft_build_act(b, h, GRAFT_ACT_RELU);
        h = conv(b, block_name(a, k, i, "block2"), h, width, a->light ? 3 : a->kernel);
        x = graft_build_add(b, h, x);
    }
    return a->light ? conv(b, side_name(a, k, "out_conv"), x, a->channels[k], 1) : x;
}

graft_status graft_t2i_build(const graft_t2i_arch *a, const graft_t2i_shape *s, graft_graph **out,
                             graft_err *e)
{
    graft_graph *g = graft_graph_create();
    if (!g) return graft_fail_nomem(e, "T2I-Adapter graph");
    const graft_build b = {g, s->act_dtype};
    graft_vid before[GRAFT_T2I_FEATURES];
    graft_vid x =
        graft_graph_input(g, GRAFT_F32, 4,
                          (const int64_t[4]){s->rows, s->height, s->width,
                                             (int64_t)a->colours * a->factor * a->factor});
    graft_vid strength = graft_graph_input(g, GRAFT_F32, 1, (const int64_t[1]){1});
    strength = graft_graph_reshape(g, strength, 4, (const int64_t[4]){1, 1, 1, 1});
    for (int k = 0; k < a->n && s->more; k++) {
        int64_t dim[4];
        graft_t2i_feature_shape(a, s, k, dim);
        before[k] = graft_graph_input(g, s->act_dtype, 4, dim);
    }
    x = graft_build_cast(&b, x, s->act_dtype);
    if (!a->light) x = graft_build_conv3(&b, NAME("conv_in"), x, a->channels[0]);
    for (int k = 0; k < a->n; k++) {
        x = feature(&b, a, k, x);
        const graft_vid y = graft_build_mul(&b, x, strength);
        graft_graph_output(g, s->more ? graft_build_add(&b, y, before[k]) : y);
    }
    graft_status st = graft_graph_status(g, e);
    if (st)
        graft_graph_destroy(g);
    else
        *out = g;
    return st;
}

/* ------------------------------------------------------------------ sizes */

void graft_t2i_feature_shape(const graft_t2i_arch *a, const graft_t2i_shape *s, int k,
                             int64_t dim[4])
{
    dim[0] = s->rows;
    dim[1] = s->height;
    dim[2] = s->width;
    dim[3] = a->channels[k];
    for (int i = 0; i <= k; i++)
        if (halves(a, i)) {
            dim[1] = (dim[1] + 1) / 2;
            dim[2] = (dim[2] + 1) / 2;
        }
}

int64_t graft_t2i_side(const graft_t2i_arch *a, int64_t cells)
{
    const int64_t each = a->factor / CELL;
    return (cells + each - 1) / each;
}

/* How many pixels of the picture a side of a feature's place is, and of a UNet's block's. */
static int64_t scale_of(const graft_t2i_arch *a, int k)
{
    int64_t scale = a->factor;
    for (int i = 0; i <= k; i++) scale *= halves(a, i) ? 2 : 1;
    return scale;
}

static int64_t scale_at(const graft_unet_arch *unet, int32_t place)
{
    int64_t scale = CELL;
    for (int32_t i = 0; i <= place && i < unet->n_input; i++) scale *= unet->input[i].down ? 2 : 1;
    return scale;
}

graft_status graft_t2i_fits(const graft_t2i_arch *a, const graft_unet_arch *unet, graft_err *e)
{
    int32_t place[GRAFT_UNET_PLACES];
    const int n = graft_unet_places(unet, place);
    if (a->n != n && a->n != n - 1)
        return graft_fail(
            e, GRAFT_E_ARG,
            "this T2I-Adapter belongs to another kind of model: it gives %d features, "
            "the model has places for %d or %d",
            a->n, n - 1, n);
    for (int k = 0; k < a->n; k++) {
        int64_t dim[4];
        const graft_net_shape any = {.batch = 1, .height = 64, .width = 64, .control = 1};
        graft_unet_residual_shape(unet, &any, place[k], dim);
        if (dim[3] == a->channels[k] && scale_of(a, k) == scale_at(unet, place[k])) continue;
        return graft_fail(
            e, GRAFT_E_ARG,
            "this T2I-Adapter belongs to another kind of model: its feature %d has %d "
            "channels for squares of %lld pixels, the model's blocks there %lld for "
            "%lld",
            k, a->channels[k], (long long)scale_of(a, k), (long long)dim[3],
            (long long)scale_at(unet, place[k]));
    }
    return GRAFT_OK;
}
