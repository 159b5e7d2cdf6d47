#include "engine/models/controlnet.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "engine/models/control_union.h"
#include "engine/models/diffusers.h"
#include "engine/models/unet_blocks.h"

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

graft_status graft_control_hint_build(const graft_control_arch *a, int64_t batch, int64_t height,
                                      int64_t width, graft_dtype act_dtype, graft_graph **out,
                                      graft_err *e)
{
    graft_graph *g = graft_graph_create();
    if (!g) return graft_fail_nomem(e, "ControlNet graph");
    const graft_build b = {g, act_dtype};
    int64_t dim[4] = {batch, height * GRAFT_CONTROL_FACTOR, width * GRAFT_CONTROL_FACTOR,
                      a->hint_channels};
    graft_vid h = graft_build_cast(&b, graft_graph_input(g, GRAFT_F32, 4, dim), act_dtype);
    for (int i = 0; i < a->n_hint; i++) {
        graft_conv_spec spec = {a->hint[i], 3, halves(a, i) ? 2 : 1, {1, 1, 1, 1}};
        h = graft_build_conv(&b, NAME("input_hint_block.%d", 2 * i), h, spec);
        if (i + 1 < a->n_hint) h = graft_build_act(&b, h, GRAFT_ACT_SILU);
    }
    if (a->types) {
        graft_control_union_type type = graft_control_union_input(a, g);
        h = graft_build_add(&b, h, graft_control_union_shift(&b, a, type, h));
    }
    graft_graph_output(g, h);
    return take(a, g, out, e);
}

/* What block i gives, through its own 1x1 convolution, times strength, to what is there already. */
static void residual(graft_unet_blocks *u, graft_name name, graft_vid h, graft_vid strength,
                     graft_vid before)
{
    const graft_build *b = &u->b;
    graft_conv_spec spec = {(int32_t)graft_build_dim(b, h, 3), 1, 1, {0, 0, 0, 0}};
    graft_vid in[2] = {graft_build_conv(b, name, h, spec), strength};
    graft_vid r = graft_graph_node(b->g, GRAFT_OP_MUL, NULL, in, 2, b->act_dtype);
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

graft_status graft_control_build(const graft_control_arch *a, const graft_control_shape *s,
                                 graft_graph **out, graft_err *e)
{
    graft_graph *g = graft_graph_create();
    if (!g) return graft_fail_nomem(e, "ControlNet graph");
    const graft_unet_arch *half = &a->half;
    graft_unet_blocks u = {.b = {g, s->act_dtype},
                           .a = half,
                           .emb = GRAFT_NO_VALUE,
                           .context = GRAFT_NO_VALUE,
                           .batch = s->batch};
    const graft_unet_shape unet = {.batch = s->batch, .height = s->height, .width = s->width};
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
    return take(a, g, out, e);
}

graft_status graft_control_fits(const graft_control_arch *a, const graft_unet_arch *unet,
                                graft_err *e)
{
    const graft_unet_arch *h = &a->half;
    if (h->context_dim != unet->context_dim || h->adm_channels != unet->adm_channels)
        return graft_fail(e, GRAFT_E_ARG,
                          "this ControlNet belongs to another kind of model: it takes prompts of "
                          "width %d and %d further values, the model %d and %d (SD 1.x: 768 and 0, "
                          "SD 2.x: 1024 and 0, SDXL: 2048 and 2816)",
                          h->context_dim, h->adm_channels, unet->context_dim, unet->adm_channels);
    bool same = h->n_input == unet->n_input && h->in_channels == graft_unet_latent_channels(unet);
    for (int i = 0; same && i < h->n_input; i++)
        same = h->input[i].channels == unet->input[i].channels &&
               h->input[i].down == unet->input[i].down;
    if (same) return GRAFT_OK;
    return graft_fail(e, GRAFT_E_ARG,
                      "this ControlNet belongs to another kind of model: its blocks are not the "
                      "model's");
}
