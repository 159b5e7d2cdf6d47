#include "engine/quant/plan.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/map.h"
#include "engine/graph/cost.h"
#include "engine/weights/quantized.h"

const char *graft_quant_format_name(graft_quant_format f)
{
    return f == GRAFT_FORMAT_FP8 ? "fp8_e4m3fn" : "int";
}

bool graft_quant_format_read(const char *name, graft_quant_format *out)
{
    for (graft_quant_format f = GRAFT_FORMAT_INT; f <= GRAFT_FORMAT_FP8; f++) {
        if (strcmp(name, graft_quant_format_name(f)) != 0) continue;
        *out = f;
        return true;
    }
    return false;
}

const char *graft_quant_levels_name(int32_t bits, graft_quant_format f)
{
    return f == GRAFT_FORMAT_FP8 ? graft_quant_format_name(f) : bits == 8 ? "8 bits" : "4 bits";
}

graft_quant graft_quant_of(int32_t bits, graft_quant_format f)
{
    if (bits == 4) return GRAFT_QUANT_INT4;
    return f == GRAFT_FORMAT_FP8 ? GRAFT_QUANT_FP8 : GRAFT_QUANT_INT8;
}

bool graft_quant_layer_name(const char *tensor, char out[128])
{
    size_t length = strlen(tensor), suffix = strlen(".weight");
    if (length <= suffix || length - suffix >= 128) return false;
    if (strcmp(tensor + length - suffix, ".weight") != 0) return false;
    memcpy(out, tensor, length - suffix);
    out[length - suffix] = '\0';
    return true;
}

/* False for nodes that cannot be quantized. */
static bool layer_of(const graft_graph *g, const graft_gnode *n, char out[128])
{
    if (n->op != GRAFT_OP_CONV2D && n->op != GRAFT_OP_LINEAR) return false;
    const graft_gvalue *w = &g->value[n->in[GRAFT_LINEAR_W]];
    return w->kind == GRAFT_VALUE_WEIGHT && g->slot[w->index].n_sources == 1 &&
           graft_quant_layer_name(g->slot[w->index].source[0], out);
}

bool graft_quant_always_kept(const char *name)
{
    return strcmp(name, "input_blocks.0.0") == 0 || strcmp(name, "out.2") == 0 ||
           graft_str_starts(name, "time_embed.") || graft_str_starts(name, "label_emb.");
}

static void describe(const graft_graph *g, size_t i, graft_quant_layer *l)
{
    const graft_gnode *n = &g->node[i];
    const graft_gvalue *w = &g->value[n->in[GRAFT_LINEAR_W]];
    double elements = (double)graft_gvalue_count(&g->value[n->in[0]]) +
                      (double)graft_gvalue_count(w) + (double)graft_gvalue_count(&g->value[n->out]);
    l->conv = n->op == GRAFT_OP_CONV2D;
    memcpy(l->dim, w->dim, sizeof l->dim);
    l->flops = graft_cost_flops(g, i);
    l->density = l->flops / (2.0 * elements);
    l->mse = l->seconds = l->seconds_quantized = NAN;
    l->reason = graft_quant_always_kept(l->name) ? GRAFT_QUANT_KEPT : GRAFT_QUANT_UNKNOWN;
}

graft_status graft_quant_plan_create(const graft_unet_arch *a, const graft_unet_shape *given,
                                     graft_quant_plan **out, graft_err *e)
{
    graft_graph *g = NULL;
    graft_unet_shape shape = *given;
    graft_quant_plan *p = graft_calloc(1, sizeof *p);
    char name[128];
    graft_status st = GRAFT_OK;
    if (!p) return graft_fail_nomem(e, "quantization plan");
    shape.variant = GRAFT_UNET_WHOLE;
    shape.cut = 0;
    GRAFT_TRY(graft_unet_build(a, &shape, &g, e));
    p->layer = graft_calloc(g->n_nodes, sizeof *p->layer);
    if (!p->layer) {
        st = graft_fail_nomem(e, "quantization plan");
        goto out;
    }
    for (size_t i = 0; i < g->n_nodes; i++) {
        if (!layer_of(g, &g->node[i], name)) {
            p->other_flops += graft_cost_flops(g, i);
            continue;
        }
        graft_quant_layer *l = &p->layer[p->n++];
        memcpy(l->name, name, sizeof name);
        describe(g, i, l);
    }
    if (p->n > GRAFT_QUANT_LAYERS)
        st = graft_fail(e, GRAFT_E_LIMIT, "the UNet has %zu layers, more than %d", p->n,
                        GRAFT_QUANT_LAYERS);
    p->bits = 8;
    p->batch = shape.batch;
    p->height = shape.height;
    p->width = shape.width;
    p->tokens = shape.tokens;
    p->arch = graft_hash128(a, sizeof *a);
    p->joint_mse = p->joint_psnr = p->joint_ssim = NAN;
    p->understated = 1;
    p->excess = 0;
    p->seconds = p->sampled = p->sampled_quantized = NAN;
out:
    graft_graph_destroy(g);
    if (st)
        graft_quant_plan_destroy(p);
    else
        *out = p;
    return st;
}

void graft_quant_plan_destroy(graft_quant_plan *p)
{
    if (!p) return;
    graft_free(p->layer);
    graft_free(p);
}

static graft_quant_reason decide(const graft_quant_layer *l, const graft_quant_limits *k)
{
    double limit = l->conv ? k->conv_mse : k->linear_mse;
    if (graft_quant_always_kept(l->name)) return GRAFT_QUANT_KEPT;
    if (!(l->conv ? k->conv : k->linear)) return GRAFT_QUANT_KIND;
    if (l->density < k->density) return GRAFT_QUANT_DENSITY;
    if (limit >= 1) return GRAFT_QUANT_CHOSEN;
    if (!(limit > 0)) return GRAFT_QUANT_ERROR;
    if (isnan(l->mse)) return GRAFT_QUANT_UNKNOWN;
    return l->mse <= limit ? GRAFT_QUANT_CHOSEN : GRAFT_QUANT_ERROR;
}

bool graft_quant_limits_equal(const graft_quant_limits *a, const graft_quant_limits *b)
{
    return a->conv == b->conv && a->linear == b->linear && a->conv_mse == b->conv_mse &&
           a->linear_mse == b->linear_mse && a->density == b->density;
}

double graft_quant_limits_largest(const graft_quant_limits *k)
{
    double conv = k->conv ? k->conv_mse : 0, linear = k->linear ? k->linear_mse : 0;
    return conv > linear ? conv : linear;
}

size_t graft_quant_plan_select(graft_quant_plan *p, const graft_quant_limits *limits)
{
    bool changed = false;
    for (size_t i = 0; i < p->n; i++) {
        graft_quant_reason was = p->layer[i].reason;
        p->layer[i].reason = decide(&p->layer[i], limits);
        changed =
            changed || (was == GRAFT_QUANT_CHOSEN) != (p->layer[i].reason == GRAFT_QUANT_CHOSEN);
    }
    p->limits = *limits;
    if (changed) p->joint_mse = p->joint_psnr = p->joint_ssim = p->sampled_quantized = NAN;
    return graft_quant_plan_count(p, GRAFT_QUANT_CHOSEN);
}

size_t graft_quant_plan_count(const graft_quant_plan *p, graft_quant_reason reason)
{
    size_t n = 0;
    for (size_t i = 0; i < p->n; i++) n += p->layer[i].reason == reason;
    return n;
}

size_t graft_quant_plan_find(const graft_quant_plan *p, const char *name)
{
    size_t i = 0;
    while (i < p->n && strcmp(p->layer[i].name, name) != 0) i++;
    return i;
}

double graft_quant_plan_estimate(const graft_quant_plan *p)
{
    double sum = 0;
    for (size_t i = 0; i < p->n; i++)
        if (p->layer[i].reason == GRAFT_QUANT_CHOSEN && isfinite(p->layer[i].mse))
            sum += p->layer[i].mse;
    return sum;
}

double graft_quant_plan_predict(const graft_quant_plan *p, double sum)
{
    return fmin(sum * p->understated, sum + p->excess);
}

double graft_quant_plan_budget(const graft_quant_plan *p, double limit)
{
    return fmax(limit / p->understated, limit - p->excess);
}

bool graft_quant_plan_measured(const graft_quant_plan *p)
{
    size_t i = 0;
    while (i < p->n && isnan(p->layer[i].mse)) i++;
    return i < p->n;
}

size_t graft_quant_plan_back_off(graft_quant_plan *p, double budget)
{
    for (size_t gone = 0;; gone++) {
        double sum = 0;
        graft_quant_layer *worst = NULL;
        for (size_t i = 0; i < p->n; i++) {
            graft_quant_layer *l = &p->layer[i];
            if (l->reason != GRAFT_QUANT_CHOSEN || isnan(l->mse)) continue;
            sum += l->mse;
            if (!worst || l->mse > worst->mse) worst = l;
        }
        if (!worst || sum <= budget) return gone;
        worst->reason = GRAFT_QUANT_BACKED_OFF;
        p->joint_mse = p->joint_psnr = p->joint_ssim = p->sampled_quantized = NAN;
    }
}

double graft_quant_plan_gain(const graft_quant_plan *p)
{
    double saved = 0;
    if (!(p->seconds > 0)) return 1;
    for (size_t i = 0; i < p->n; i++) {
        const graft_quant_layer *l = &p->layer[i];
        if (l->reason == GRAFT_QUANT_CHOSEN && !isnan(l->seconds_quantized))
            saved += l->seconds - l->seconds_quantized;
    }
    return saved < p->seconds ? p->seconds / (p->seconds - saved) : 1;
}

#define DISTURBED 1.5 /* predicted and measured speed differ by less on a quiet machine */

bool graft_quant_plan_disturbed(const graft_quant_plan *p)
{
    if (!(p->seconds > 0 && p->sampled > 0 && p->sampled_quantized > 0)) return false;
    double off = p->sampled / p->sampled_quantized / graft_quant_plan_gain(p);
    return !(off > 1 / DISTURBED && off < DISTURBED);
}

/* ------------------------------------------------------------------ choices */

graft_status graft_quant_layers(const graft_unet_arch *a, graft_quant_plan **out, graft_err *e)
{
    graft_unet_shape shape;
    memset(&shape, 0, sizeof shape);
    shape.batch = shape.tokens = 1;
    shape.height = shape.width = 64;
    shape.act_dtype = GRAFT_F32;
    return graft_quant_plan_create(a, &shape, out, e);
}

graft_status graft_quant_choice_make(const graft_quant_plan *p, const graft_unet_arch *a,
                                     graft_quant_choice *out, graft_err *e)
{
    graft_quant_plan *all = NULL;
    graft_status st = graft_quant_layers(a, &all, e);
    if (st) return st;
    memset(out, 0, sizeof *out);
    out->bits = p->bits;
    out->format = p->format;
    bool same = p->n == all->n;
    bool any = false;
    for (size_t i = 0; i < all->n && same; i++) {
        const graft_quant_layer *k = &p->layer[i], *l = &all->layer[i];
        same = strcmp(k->name, l->name) == 0 && k->conv == l->conv &&
               memcmp(k->dim, l->dim, sizeof k->dim) == 0;
        if (k->reason != GRAFT_QUANT_CHOSEN) continue;
        out->set[i / 8] |= (uint8_t)(1u << i % 8);
        any = true;
    }
    if (!any) memset(out, 0, sizeof *out);
    graft_quant_plan_destroy(all);
    return same ? GRAFT_OK
                : graft_fail(e, GRAFT_E_ARG, "the quantization plan is for another architecture");
}

graft_status graft_quant_choice_of_weights(const graft_unet_arch *a, const graft_weights *w,
                                           graft_quant_choice *out, graft_err *e)
{
    graft_quant_plan *all = NULL;
    char name[160];
    memset(out, 0, sizeof *out);
    if (!graft_safetensors_metadata(graft_weights_file(w), GRAFT_QUANTIZED_KEY)) return GRAFT_OK;
    graft_status st = graft_quant_layers(a, &all, e);
    for (size_t i = 0; !st && i < all->n; i++) {
        snprintf(name, sizeof name, "%s.weight", all->layer[i].name);
        const graft_st_tensor *t = graft_weights_find(w, name);
        /* Kept layers become floats again, whatever the file has. */
        if (!t || !graft_is_quantized(t->dtype) || graft_quant_always_kept(all->layer[i].name))
            continue;
        out->bits = t->dtype == GRAFT_Q4 ? 4 : 8;
        out->format = t->dtype == GRAFT_QF8 ? GRAFT_FORMAT_FP8 : GRAFT_FORMAT_INT;
        out->set[i / 8] |= (uint8_t)(1u << i % 8);
    }
    graft_quant_plan_destroy(all);
    return st;
}

graft_status graft_quant_choice_apply(const graft_quant_choice *c, const graft_unet_arch *a,
                                      graft_graph *g, graft_err *e)
{
    graft_quant_plan *all = NULL;
    graft_map chosen = GRAFT_MAP_INIT;
    char name[128];
    if (!c->bits) return GRAFT_OK;
    graft_status st = graft_quant_layers(a, &all, e);
    for (size_t i = 0; !st && i < all->n; i++)
        if (c->set[i / 8] >> i % 8 & 1 && graft_map_put(&chosen, all->layer[i].name, all))
            st = graft_fail_nomem(e, "quantization plan");
    for (size_t i = 0; !st && i < g->n_nodes; i++)
        if (layer_of(g, &g->node[i], name) && graft_map_has(&chosen, name))
            g->node[i].attrs.quant = graft_quant_of(c->bits, c->format);
    graft_map_finish(&chosen);
    graft_quant_plan_destroy(all);
    return st;
}

graft_status graft_quant_weights_hash(const graft_unet_arch *a, graft_weights *w, graft_hash *out,
                                      graft_err *e)
{
    graft_unet_shape shape;
    graft_graph *g = NULL;
    graft_weights *plain = NULL;
    graft_hash h = {0, 0}, part;
    graft_status st;
    memset(&shape, 0, sizeof shape);
    shape.batch = shape.tokens = 1;
    shape.height = shape.width = 64;
    shape.act_dtype = GRAFT_F32;
    GRAFT_TRY(graft_unet_build(a, &shape, &g, e));
    GRAFT_TRY(graft_weights_part(w, graft_weights_prefix(w), &plain, e));
    for (size_t i = 0; i < g->n_slots; i++) {
        GRAFT_TRY(graft_weights_slot_hash(plain, &g->slot[i], &part, e));
        h = graft_hash_mix(h, &part, sizeof part);
    }
    *out = h;
out:
    graft_weights_release(plain);
    graft_graph_destroy(g);
    return st;
}
