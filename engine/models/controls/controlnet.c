#include "engine/models/controls/controlnet.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "engine/models/controls/control_flux.h"
#include "engine/models/controls/control_mmdit.h"
#include "engine/models/controls/control_qwen_image.h"
#include "engine/models/controls/control_union.h"
#include "engine/models/controls/control_zimage.h"
#include "engine/models/controls/t2i_adapter.h"
#include "engine/models/names/diffusers.h"
#include "engine/models/transformers/control_blockwise.h"
#include "engine/models/transformers/flux.h"
#include "engine/models/unets/unet.h"
#include "engine/models/unets/unet_blocks.h"

#define NAME(...) graft_name_make(__VA_ARGS__)

/* Weights by diffusers' names, with their endings (".weight") as they are. */
static graft_status rename_slots(const graft_control_arch *a, graft_graph *g, graft_err *e)
{
    for (size_t i = 0; i < g->n_slots; i++)
        for (size_t k = 0; k < g->slot[i].n_sources; k++) {
            char *old = g->slot[i].source[k], layer[256], name[300];
            if (graft_control_union_has(old)) continue;
            const char *end = strrchr(old, '.');
            int length = end ? (int)(end - old) : 0;
            assert(end && (size_t)length < sizeof layer);
            snprintf(layer, sizeof layer, "%.*s", length, old);
            if (!graft_diffusers_control_name(&a->half, layer, name, sizeof name - 32))
                return graft_fail(e, GRAFT_E_UNSUPPORTED, "%s has no name in diffusers", layer);
            size_t n = strlen(name);
            snprintf(name + n, sizeof name - n, "%s", end);
            g->slot[i].source[k] = graft_strdup(name);
            graft_free(old);
            if (!g->slot[i].source[k]) return graft_fail_nomem(e, "ControlNet graph");
        }
    return GRAFT_OK;
}

static graft_status take(const graft_control_arch *a, graft_graph *g, graft_graph **out,
                         graft_err *e)
{
    graft_status st = graft_graph_status(g, e);
    if (!st && a->diffusers) st = rename_slots(a, g, e);
    if (st)
        graft_graph_destroy(g);
    else
        *out = g;
    return st;
}

static bool halves(const graft_control_arch *a, int i)
{
    return i > 0 && i < a->n_hint - 1 && i % 2 == 0;
}

static void unet_hint(const graft_control_arch *a, int64_t batch, int64_t height, int64_t width,
                      const graft_build *b)
{
    graft_graph *g = b->g;
    int64_t dim[4] = {batch, height * GRAFT_CONTROL_FACTOR, width * GRAFT_CONTROL_FACTOR,
                      a->hint_channels};
    graft_vid h = graft_build_cast(b, graft_graph_input(g, GRAFT_F32, 4, dim), b->act_dtype);
    for (int i = 0; i < a->n_hint; i++) {
        graft_conv_spec spec = {a->hint[i], 3, halves(a, i) ? 2 : 1, {1, 1, 1, 1}};
        h = graft_build_conv(b, NAME("input_hint_block.%d", 2 * i), h, spec);
        if (i + 1 < a->n_hint) h = graft_build_act(b, h, GRAFT_ACT_SILU);
    }
    if (a->types) {
        graft_control_union_type type = graft_control_union_input(a, g);
        h = graft_build_add(b, h, graft_control_union_shift(b, a, type, h));
    }
    graft_graph_output(g, h);
}

graft_status graft_control_hint_build(const graft_control_arch *a, int64_t batch, int64_t height,
                                      int64_t width, graft_dtype act_dtype, graft_graph **out,
                                      graft_err *e)
{
    graft_graph *g = graft_graph_create();
    if (!g) return graft_fail_nomem(e, "ControlNet graph");
    const graft_build b = {g, act_dtype};
    if (a->kind == GRAFT_NET_FLUX)
        graft_control_flux_hint(a, batch, height, width, &b);
    else if (a->kind == GRAFT_NET_MMDIT)
        graft_control_mmdit_hint(a, batch, height, width, &b);
    else if (a->kind == GRAFT_NET_ZIMAGE)
        graft_control_zimage_hint(a, batch, height, width, &b);
    else if (a->kind == GRAFT_NET_QWEN_IMAGE)
        graft_control_qwen_image_hint(a, batch, height, width, &b);
    else
        unet_hint(a, batch, height, width, &b);
    return take(a, g, out, e);
}

/* What block i gives, through its own 1x1 convolution, times strength, to what is there already. */
static void residual(graft_unet_blocks *u, graft_name name, graft_vid h, graft_vid strength,
                     graft_vid before)
{
    const graft_build *b = &u->b;
    graft_conv_spec spec = {(int32_t)graft_build_dim(b, h, 3), 1, 1, {0, 0, 0, 0}};
    graft_vid r = graft_build_mul(b, graft_build_conv(b, name, h, spec), strength);
    r = graft_unet_wide(u, r);
    graft_graph_output(b->g, before >= 0 ? graft_build_add(b, r, before) : r);
}

static void residuals(graft_unet_blocks *u, graft_vid h, graft_vid hint, graft_vid strength,
                      const graft_vid *before)
{
    const graft_unet_arch *a = u->a;
    for (int i = 0; i < a->n_input; i++) {
        h = graft_unet_input_block(u, i, h);
        if (i == 0) {
            bool all = h >= 0 && graft_build_dim(&u->b, h, 0) == u->batch;
            h = graft_build_add(&u->b, h, all ? graft_unet_wide(u, hint) : hint);
        }
        residual(u, NAME("zero_convs.%d.0", i), h, strength, before[i]);
    }
    h = graft_unet_middle_block(u, h);
    residual(u, NAME("middle_block_out.0"), h, strength, before[a->n_input]);
}

static void unet_control(const graft_control_arch *a, const graft_control_shape *s, graft_graph *g)
{
    const graft_unet_arch *half = &a->half;
    graft_unet_blocks u = {.b = {g, s->act_dtype},
                           .boxes = GRAFT_NO_VALUE,
                           .a = half,
                           .emb = GRAFT_NO_VALUE,
                           .context = GRAFT_NO_VALUE,
                           .batch = s->batch};
    const graft_net_shape unet = {.batch = s->batch, .height = s->height, .width = s->width};
    int64_t n = s->batch, adm = half->adm_channels;
    graft_vid before[GRAFT_UNET_RESIDUALS], told = GRAFT_NO_VALUE;
    assert(s->pictures > 0 && n % s->pictures == 0);
    graft_vid x =
        graft_graph_input(g, GRAFT_F32, 4, (int64_t[]){n, half->in_channels, s->height, s->width});
    graft_vid t = graft_graph_input(g, GRAFT_F32, 1, &n);
    graft_vid c = graft_graph_input(g, GRAFT_F32, 3, (int64_t[]){n, s->tokens, half->context_dim});
    graft_vid y = adm ? graft_graph_input(g, GRAFT_F32, 2, (int64_t[]){n, adm}) : GRAFT_NO_VALUE;
    graft_vid hint = graft_graph_input(
        g, s->act_dtype, 4, (int64_t[]){s->pictures, s->height, s->width, half->model_channels});
    graft_vid strength = graft_graph_input(g, GRAFT_F32, 1, (int64_t[]){1});
    strength = graft_graph_reshape(g, strength, 4, (int64_t[]){1, 1, 1, 1});
    if (a->types) {
        graft_control_union_type type = graft_control_union_input(a, g);
        told = graft_control_union_embedding(&u, a, type);
    }
    for (int i = 0; i <= half->n_input; i++) {
        int64_t dim[4];
        graft_unet_residual_shape(half, &unet, i, dim);
        before[i] = s->more ? graft_graph_input(g, s->act_dtype, 4, dim) : GRAFT_NO_VALUE;
    }
    u.context = graft_build_cast(&u.b, c, s->act_dtype);
    u.emb = graft_unet_time_embedding(&u, t, y, told);
    if (!adm && s->pictures < n) x = graft_graph_slice_rows(g, x, 0, s->pictures);
    residuals(&u, graft_build_to_nhwc(&u.b, x, s->act_dtype), hint, strength, before);
}

graft_status graft_control_build(const graft_control_arch *a, const graft_control_shape *s,
                                 graft_graph **out, graft_err *e)
{
    graft_graph *g = graft_graph_create();
    if (!g) return graft_fail_nomem(e, "ControlNet graph");
    const graft_build b = {g, s->act_dtype};
    if (a->kind == GRAFT_NET_FLUX)
        graft_control_flux(a, s, &b);
    else if (a->kind == GRAFT_NET_MMDIT)
        graft_control_mmdit(a, s, &b);
    else if (a->kind == GRAFT_NET_ZIMAGE)
        graft_control_zimage(a, s, &b);
    else if (a->within)
        graft_control_blockwise(a, s, &b);
    else if (a->kind == GRAFT_NET_QWEN_IMAGE)
        graft_control_qwen_image(a, s, &b);
    else
        unet_control(a, s, g);
    return take(a, g, out, e);
}

/* The first so many blocks, each for itself. */
static uint64_t first_blocks(int32_t depth)
{
    return depth < 64 ? ((uint64_t)1 << depth) - 1 : UINT64_MAX;
}

/* As many tokens as need none to fill them up. */
static graft_control_shape some_shape_of_zimage(const graft_control_arch *a, graft_control_shape s)
{
    s.width = (int64_t)a->zimage.patch * GRAFT_ZIMAGE_TOKENS;
    s.height = a->zimage.patch;
    s.tokens = GRAFT_ZIMAGE_TOKENS;
    if (a->refining != GRAFT_CONTROL_REFINES_HINT)
        s.own.begins[0] = first_blocks(a->zimage.noise_depth);
    s.own.begins[1] = first_blocks(a->zimage.depth);
    s.steered = s.own;
    return s;
}

static graft_control_shape some_shape_of_qwen_image(const graft_control_arch *a,
                                                    graft_control_shape s)
{
    s.height = s.width = a->qwen_image.patch;
    s.context_dim = a->qwen_image.context_dim;
    s.own.begins[0] = first_blocks(a->qwen_image.depth);
    s.steered = s.own;
    return s;
}

graft_control_shape graft_control_some_shape(const graft_control_arch *a)
{
    graft_control_shape s = {
        .batch = 1, .tokens = 1, .pictures = 1, .act_dtype = GRAFT_F32, .height = 64, .width = 64};
    const int32_t depth[GRAFT_STEERED_PARTS] = {
        a->kind == GRAFT_NET_FLUX ? a->flux.depth : a->mmdit.depth, a->flux.single_depth};
    if (a->kind == GRAFT_NET_UNET) return s;
    if (a->kind == GRAFT_NET_ZIMAGE) return some_shape_of_zimage(a, s);
    if (a->kind == GRAFT_NET_QWEN_IMAGE) return some_shape_of_qwen_image(a, s);
    s.height = s.width = a->kind == GRAFT_NET_FLUX ? a->flux.patch : a->mmdit.patch;
    s.told = a->types > 0;
    s.context_dim = a->kind == GRAFT_NET_FLUX ? a->flux.context_dim : a->mmdit.context_dim;
    if (!s.context_dim) s.context_dim = 1;
    s.y_width = a->kind == GRAFT_NET_FLUX ? graft_flux_y_width(&a->flux) : a->mmdit.pooled_dim;
    for (int part = 0; part < GRAFT_STEERED_PARTS; part++)
        s.own.begins[part] = first_blocks(depth[part]);
    s.steered = s.own;
    return s;
}

/* ------------------------------------------------------------------ whom they fit */

static int32_t channels_at(const graft_unet_arch *unet, int i)
{
    while (i > 0 && unet->input[i].down) i--;
    return unet->input[i].channels;
}

static graft_status fits_unet(const graft_control_arch *a, const graft_unet_arch *unet,
                              graft_err *e)
{
    const graft_unet_arch *h = &a->half;
    const bool told = h->context_dim || !a->lora;
    if ((told && h->context_dim != unet->context_dim) || h->adm_channels != unet->adm_channels)
        return graft_fail(e, GRAFT_E_ARG,
                          "this ControlNet belongs to another kind of model: it takes prompts of "
                          "width %d and %d further values, the model %d and %d (SD 1.x: 768 and 0, "
                          "SD 2.x: 1024 and 0, SDXL: 2048 and 2816)",
                          h->context_dim, h->adm_channels, unet->context_dim, unet->adm_channels);
    bool same =
        h->n_input == unet->n_input &&
        (h->in_channels == graft_unet_latent_channels(unet) || (a->lora && !h->in_channels));
    for (int i = 0; same && i < h->n_input; i++)
        same = a->lora ? h->input[i].channels == channels_at(unet, i)
                       : h->input[i].channels == unet->input[i].channels &&
                             h->input[i].down == unet->input[i].down;
    if (same) return GRAFT_OK;
    return graft_fail(e, GRAFT_E_ARG,
                      "this ControlNet belongs to another kind of model: its blocks are not the "
                      "model's");
}

int32_t graft_control_channels(const graft_control_arch *a)
{
    switch (a->kind) {
    case GRAFT_NET_FLUX:
        return a->flux.channels;
    case GRAFT_NET_MMDIT:
        return a->mmdit.channels;
    case GRAFT_NET_ZIMAGE:
        return a->zimage.channels;
    case GRAFT_NET_QWEN_IMAGE:
        return a->qwen_image.channels;
    default:
        return a->half.in_channels;
    }
}

bool graft_control_sees_mask(const graft_control_arch *a)
{
    return graft_control_sees_latent(a) && a->hint_channels == graft_control_channels(a) + 1;
}

static const char *const kinds[] = {[GRAFT_NET_UNET] = "Stable Diffusion 1.x, 2.x or XL",
                                    [GRAFT_NET_MMDIT] = "Stable Diffusion 3",
                                    [GRAFT_NET_FLUX] = "FLUX.1",
                                    [GRAFT_NET_ZIMAGE] = "Z-Image",
                                    [GRAFT_NET_FLUX2] = "FLUX.2",
                                    [GRAFT_NET_QWEN_IMAGE] = "Qwen-Image",
                                    [GRAFT_NET_KREA2] = "Krea 2",
                                    [GRAFT_NET_ANIMA] = "Anima",
                                    [GRAFT_NET_QWEN_IMAGE21] = "Qwen-Image 2.1",
                                    [GRAFT_NET_IDEOGRAM4] = "Ideogram 4",
                                    [GRAFT_NET_ERNIE_IMAGE] = "ERNIE-Image",
                                    [GRAFT_NET_AURAFLOW] = "AuraFlow",
                                    [GRAFT_NET_OMNIGEN2] = "OmniGen2",
                                    [GRAFT_NET_HIDREAM] = "HiDream-I1"};
static_assert(sizeof kinds / sizeof *kinds == GRAFT_NET_KINDS, "every network has a name");

/* What has to be the same in both. */
typedef struct widths {
    int32_t hidden, context, pooled, channels, patch, depth[GRAFT_STEERED_PARTS];
} widths;

static widths of_flux(const graft_flux_arch *a)
{
    return (widths){a->hidden,   a->context_dim, a->pooled_dim,
                    a->channels, a->patch,       {a->depth, a->single_depth}};
}

static widths of_mmdit(const graft_mmdit_arch *a)
{
    return (widths){a->hidden, a->context_dim, a->pooled_dim, a->channels, a->patch, {a->depth, 0}};
}

static widths of_qwen_image(const graft_qwen_image_arch *a)
{
    return (widths){a->hidden, a->context_dim, 0, a->channels, a->patch, {a->depth, 0}};
}

/* Whether it sees such tokens, whatever its blocks are. */
static graft_status fits_tokens(const widths *c, const widths *m, graft_err *e)
{
    if (c->hidden != m->hidden)
        return graft_fail(e, GRAFT_E_ARG,
                          "this ControlNet belongs to another model: its blocks are %d wide, the "
                          "model's %d",
                          c->hidden, m->hidden);
    if (c->channels != m->channels || c->patch != m->patch)
        return graft_fail(
            e, GRAFT_E_ARG,
            "this ControlNet belongs to another model: it sees latents of %d channels "
            "in squares of %d, the model of %d in squares of %d",
            c->channels, c->patch, m->channels, m->patch);
    return GRAFT_OK;
}

static graft_status fits_transformer(const widths *c, const widths *m, graft_err *e)
{
    graft_status st = fits_tokens(c, m, e);
    if (st) return st;
    if ((c->context && c->context != m->context) || c->pooled != m->pooled)
        return graft_fail(e, GRAFT_E_ARG,
                          "this ControlNet belongs to another model: it takes prompts of width %d "
                          "with a pooled vector of %d, the model %d and %d",
                          c->context, c->pooled, m->context, m->pooled);
    for (int part = 0; part < GRAFT_STEERED_PARTS; part++)
        if (c->depth[part] > m->depth[part] ||
            (c->depth[part] && m->depth[part] > GRAFT_STEERED_BLOCKS))
            return graft_fail(e, GRAFT_E_ARG,
                              "this ControlNet belongs to another model: it has %d blocks for the "
                              "model's %d",
                              c->depth[part], m->depth[part]);
    return GRAFT_OK;
}

/* Within a network, for each of its blocks. */
static graft_status fits_within(const widths *c, const widths *m, graft_err *e)
{
    graft_status st = fits_tokens(c, m, e);
    if (st || c->depth[0] == m->depth[0]) return st;
    return graft_fail(e, GRAFT_E_ARG,
                      "this ControlNet belongs to another model: it has layers for %d blocks, the "
                      "model has %d",
                      c->depth[0], m->depth[0]);
}

static graft_status fits_zimage(const graft_control_arch *a, const graft_zimage_arch *m,
                                graft_err *e)
{
    const graft_zimage_arch *c = &a->zimage;
    if (m->key_heads)
        return graft_fail(
            e, GRAFT_E_ARG,
            "this ControlNet belongs to another kind of model: it is for Z-Image, the "
            "model is Lumina-Image 2.0");
    if (c->hidden != m->hidden || c->heads != m->heads || c->mlp != m->mlp || c->told != m->told)
        return graft_fail(e, GRAFT_E_ARG,
                          "this ControlNet belongs to another model: its blocks are %d wide, of %d "
                          "heads and %d in their middle, told the time by %d numbers, the model's "
                          "%d, %d, %d and %d",
                          c->hidden, c->heads, c->mlp, c->told, m->hidden, m->heads, m->mlp,
                          m->told);
    if (c->channels != m->channels || c->patch != m->patch)
        return graft_fail(e, GRAFT_E_ARG,
                          "this ControlNet belongs to another model: it sees latents of %d "
                          "channels in squares of %d, the model of %d in squares of %d",
                          c->channels, c->patch, m->channels, m->patch);
    if (c->depth > m->depth || m->depth > GRAFT_STEERED_BLOCKS ||
        (a->refining != GRAFT_CONTROL_REFINES_HINT &&
         (!m->noise_depth || m->noise_depth > GRAFT_STEERED_BLOCKS)))
        return graft_fail(e, GRAFT_E_ARG,
                          "this ControlNet belongs to another model: it has %d blocks for the "
                          "model's %d, and %d for %d of the picture alone",
                          c->depth, m->depth, c->noise_depth, m->noise_depth);
    return GRAFT_OK;
}

graft_status graft_control_fits(const graft_control_arch *a, const graft_net_arch *net,
                                graft_err *e)
{
    if (a->kind != net->kind)
        return graft_fail(e, GRAFT_E_ARG,
                          "this %s belongs to another kind of model: it is for %s, the model is %s",
                          a->t2i.n ? "T2I-Adapter" : "ControlNet", kinds[a->kind],
                          kinds[net->kind]);
    if (a->t2i.n) return graft_t2i_fits(&a->t2i, &net->unet, e);
    if (a->kind == GRAFT_NET_UNET) return fits_unet(a, &net->unet, e);
    if (a->kind == GRAFT_NET_ZIMAGE) return fits_zimage(a, &net->zimage, e);
    if (a->kind == GRAFT_NET_MMDIT) {
        const widths c = of_mmdit(&a->mmdit), m = of_mmdit(&net->mmdit);
        return fits_transformer(&c, &m, e);
    }
    if (a->kind == GRAFT_NET_QWEN_IMAGE) {
        if (net->qwen_image.layered)
            return graft_fail(e, GRAFT_E_ARG,
                              "this ControlNet is for Qwen-Image, and not for the layered one");
        const widths c = of_qwen_image(&a->qwen_image), m = of_qwen_image(&net->qwen_image);
        return a->within ? fits_within(&c, &m, e) : fits_transformer(&c, &m, e);
    }
    if (net->flux.approximator || net->flux.words)
        return graft_fail(e, GRAFT_E_ARG,
                          "this ControlNet belongs to another kind of model: it is for FLUX.1, the "
                          "model is %s, for which none are supported",
                          net->flux.approximator ? "Chroma"
                          : net->flux.gated      ? "Ovis-Image"
                                                 : "LongCat-Image");
    if (a->flux.guidance && !net->flux.guidance)
        return graft_fail(e, GRAFT_E_ARG,
                          "this ControlNet belongs to another model: it is told a guidance scale, "
                          "as FLUX.1 dev is, which the model is not");
    const widths c = of_flux(&a->flux), m = of_flux(&net->flux);
    return fits_transformer(&c, &m, e);
}

/* Each block behind one of the network's: in equal distances, from the first on. */
static graft_steered zimage_steers(const graft_control_arch *a, const graft_zimage_arch *net)
{
    graft_steered s = {{0}};
    const bool twice = a->refining == GRAFT_CONTROL_REFINES_TWICE;
    const int32_t refiners = twice ? a->zimage.depth : a->zimage.noise_depth;
    for (int32_t i = 0; i < a->zimage.depth; i++)
        s.begins[1] |= (uint64_t)1 << i * (net->depth / a->zimage.depth);
    if (a->refining != GRAFT_CONTROL_REFINES_HINT)
        s.begins[0] = first_blocks(refiners < net->noise_depth ? refiners : net->noise_depth);
    return s;
}

graft_steered graft_control_steers(const graft_control_arch *a, const graft_net_arch *net)
{
    graft_steered s = {{0}};
    const bool qwen = a->kind == GRAFT_NET_QWEN_IMAGE;
    const bool even = a->kind == GRAFT_NET_FLUX || qwen; /* as many blocks for each */
    const widths c = qwen   ? of_qwen_image(&a->qwen_image)
                     : even ? of_flux(&a->flux)
                            : of_mmdit(&a->mmdit);
    const widths m = qwen   ? of_qwen_image(&net->qwen_image)
                     : even ? of_flux(&net->flux)
                            : of_mmdit(&net->mmdit);
    if (a->kind == GRAFT_NET_UNET || a->within) return s;
    if (a->kind == GRAFT_NET_ZIMAGE) return zimage_steers(a, &net->zimage);
    for (int part = 0; part < GRAFT_STEERED_PARTS; part++) {
        const int32_t n = c.depth[part], all = m.depth[part];
        const int32_t each = n ? (all + n - 1) / n : 0;
        for (int32_t k = 0, last = -1; n && k < (even ? all : all - 1); k++) {
            const int32_t i = even ? k / each : k * n / all;
            if (i != last) s.begins[part] |= (uint64_t)1 << k;
            last = i;
        }
    }
    return s;
}
