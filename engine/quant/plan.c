#include "engine/quant/plan.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/map.h"
#include "engine/graph/cost.h"
#include "engine/weights/coded.h"
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

const char *graft_layer_kind_name(graft_layer_kind kind)
{
    static const char *const name[GRAFT_LAYER_KINDS] = {"conv", "linear", "attention"};
    return name[kind];
}

int graft_layer_kind_rank(graft_layer_kind kind)
{
    return kind == GRAFT_LAYER_LINEAR ? 2 : 4;
}

bool graft_layer_kind_takes(graft_layer_kind kind, int32_t bits, graft_quant_format f)
{
    return kind != GRAFT_LAYER_ATTENTION || graft_quant_of(bits, f) == GRAFT_QUANT_INT8;
}

/* Before passes run a node is one layer. False for nodes that cannot be quantized. */
static bool layer_of(const graft_graph *g, size_t i, char out[128])
{
    return graft_quant_node_layers(g, i) == 1 && graft_quant_node_layer(g, i, 0, out);
}

/* Layers in and out of networks, and what tells them the time and the like. */
static const char *const kept_whole[] = {"adaLN_modulation.1",
                                         "adaln_proj",
                                         "embed_image_indicator",
                                         "final_linear",
                                         "final_norm.linear",
                                         "first",
                                         "img_in",
                                         "init_x_linear",
                                         "input_blocks.0.0",
                                         "input_proj",
                                         "last.linear",
                                         "modF.1",
                                         "modulation.1",
                                         "norm_out.linear",
                                         "out.2",
                                         "proj_out",
                                         "ref_image_patch_embedder",
                                         "txtfusion.projector",
                                         "x_embedder",
                                         "x_embedder.proj",
                                         "x_embedder.proj.1"};
static const char *const kept_begin[] = {"distilled_guidance_layer.",
                                         "final_layer.",
                                         "guidance_in.",
                                         "label_emb.",
                                         "llm_adapter.",
                                         "norm_out.linear_",
                                         "p_embedder.",
                                         "t_embedder.",
                                         "t_embedding.",
                                         "time_caption_embed.timestep_embedder.",
                                         "time_embed.",
                                         "time_embedding.",
                                         "time_in.",
                                         "time_text_embed.",
                                         "tmlp.",
                                         "tproj.",
                                         "vector_in.",
                                         "y_embedder."};

bool graft_quant_always_kept(const char *name)
{
    for (size_t i = 0; i < sizeof kept_whole / sizeof *kept_whole; i++)
        if (strcmp(name, kept_whole[i]) == 0) return true;
    for (size_t i = 0; i < sizeof kept_begin / sizeof *kept_begin; i++)
        if (graft_str_starts(name, kept_begin[i])) return true;
    return graft_str_ends(name, ".ff_i.gate"); /* which chooses experts */
}

static void describe(const graft_graph *g, size_t i, graft_quant_layer *l)
{
    const graft_gnode *n = &g->node[i];
    const graft_gvalue *in[3], *out = &g->value[n->out];
    double elements = (double)graft_gvalue_count(out);
    l->kind = n->op == GRAFT_OP_CONV2D   ? GRAFT_LAYER_CONV
              : n->op == GRAFT_OP_LINEAR ? GRAFT_LAYER_LINEAR
                                         : GRAFT_LAYER_ATTENTION;
    bool attention = l->kind == GRAFT_LAYER_ATTENTION;
    for (int k = 0; k < (attention ? 3 : 2); k++) {
        in[k] = &g->value[n->in[k]];
        elements += (double)graft_gvalue_count(in[k]);
    }
    if (attention) {
        const int64_t dim[4] = {n->attrs.heads, out->dim[2] / n->attrs.heads,
                                in[GRAFT_ATTENTION_Q]->dim[1], in[GRAFT_ATTENTION_K]->dim[1]};
        memcpy(l->dim, dim, sizeof dim);
    } else {
        memcpy(l->dim, in[GRAFT_LINEAR_W]->dim, sizeof l->dim);
    }
    l->flops = graft_cost_flops(g, i);
    l->density = l->flops / (2.0 * elements);
    l->mse = l->seconds = l->seconds_quantized = NAN;
    l->reason = graft_quant_always_kept(l->name) ? GRAFT_QUANT_KEPT : GRAFT_QUANT_UNKNOWN;
}

/* A layer that runs more than once, as on a prompt and on a picture, is as where it has most to
 * do. */
static graft_status add_layers(const graft_graph *g, graft_quant_plan *p, graft_err *e)
{
    graft_map known = GRAFT_MAP_INIT;
    graft_status st = GRAFT_OK;
    char name[128];
    for (size_t i = 0; i < g->n_nodes && !st; i++) {
        if (!layer_of(g, i, name)) {
            p->other_flops += graft_cost_flops(g, i);
            continue;
        }
        graft_quant_layer *l = graft_map_get(&known, name);
        if (!l) {
            l = &p->layer[p->n++];
            if (graft_map_put(&known, name, l)) st = graft_fail_nomem(e, "quantization plan");
        }
        if (graft_cost_flops(g, i) < l->flops) continue;
        memcpy(l->name, name, sizeof name);
        describe(g, i, l);
    }
    graft_map_finish(&known);
    return st;
}

graft_status graft_quant_plan_create(const graft_net_arch *a, const graft_net_shape *given,
                                     graft_quant_plan **out, graft_err *e)
{
    graft_graph *g = NULL;
    graft_net_shape shape = *given;
    graft_quant_plan *p = graft_calloc(1, sizeof *p);
    graft_status st = GRAFT_OK;
    if (!p) return graft_fail_nomem(e, "quantization plan");
    shape.variant = GRAFT_WHOLE;
    shape.cut = 0;
    graft_net_read_all(a, &shape);
    GRAFT_TRY(graft_net_build(a, &shape, shape.batch, &g, e));
    p->layer = graft_calloc(g->n_nodes, sizeof *p->layer);
    if (!p->layer) {
        st = graft_fail_nomem(e, "quantization plan");
        goto out;
    }
    GRAFT_TRY(add_layers(g, p, e));
    if (p->n > GRAFT_QUANT_LAYERS)
        st = graft_fail(e, GRAFT_E_LIMIT, "the UNet has %zu layers, more than %d", p->n,
                        GRAFT_QUANT_LAYERS);
    p->bits = 8;
    p->batch = shape.batch;
    p->height = shape.height;
    p->width = shape.width;
    p->tokens = shape.tokens;
    p->arch = graft_net_hash(a);
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

static graft_quant_reason decide(const graft_quant_plan *p, const graft_quant_layer *l,
                                 const graft_quant_limits *k)
{
    double limit = k->mse[l->kind];
    if (graft_quant_always_kept(l->name)) return GRAFT_QUANT_KEPT;
    if (!k->on[l->kind] || !graft_layer_kind_takes(l->kind, p->bits, p->format))
        return GRAFT_QUANT_KIND;
    if (l->density < k->density) return GRAFT_QUANT_DENSITY;
    if (limit >= 1) return GRAFT_QUANT_CHOSEN;
    if (!(limit > 0)) return GRAFT_QUANT_ERROR;
    if (isnan(l->mse)) return GRAFT_QUANT_UNKNOWN;
    return l->mse <= limit ? GRAFT_QUANT_CHOSEN : GRAFT_QUANT_ERROR;
}

/* Whether these are one layer. How many queries and keys there are depends on the picture. */
static bool same_layer(const graft_quant_layer *a, const graft_quant_layer *b)
{
    size_t dims = a->kind == GRAFT_LAYER_ATTENTION ? 2 : 4;
    return strcmp(a->name, b->name) == 0 && a->kind == b->kind &&
           memcmp(a->dim, b->dim, dims * sizeof *a->dim) == 0;
}

/* all[i] becomes the plan's own where it has that layer. False: it has others. */
static bool take_layers(const graft_quant_plan *p, graft_quant_plan *all)
{
    size_t at = 0;
    for (size_t i = 0; i < all->n; i++) {
        if (at < p->n && same_layer(&p->layer[at], &all->layer[i]))
            memcpy(&all->layer[i], &p->layer[at++], sizeof *all->layer);
        else if (all->layer[i].kind != GRAFT_LAYER_ATTENTION)
            return false;
    }
    return at == p->n;
}

graft_status graft_quant_plan_complete(graft_quant_plan *p, const graft_net_arch *a, graft_err *e)
{
    graft_net_shape shape;
    graft_quant_plan *all = NULL;
    for (size_t i = 0; i < p->n; i++)
        if (p->layer[i].kind == GRAFT_LAYER_ATTENTION) return GRAFT_OK;
    memset(&shape, 0, sizeof shape);
    shape.batch = p->batch;
    shape.height = p->height;
    shape.width = p->width;
    shape.tokens = p->tokens;
    shape.act_dtype = GRAFT_F32;
    graft_status st = graft_quant_plan_create(a, &shape, &all, e);
    if (st) return st;
    if (take_layers(p, all)) {
        graft_quant_layer *old = p->layer;
        for (size_t i = 0; i < all->n; i++)
            if (all->layer[i].kind == GRAFT_LAYER_ATTENTION)
                all->layer[i].reason = decide(p, &all->layer[i], &p->limits);
        p->layer = all->layer;
        p->n = all->n;
        p->other_flops = all->other_flops;
        all->layer = old;
    } else {
        st = graft_fail(e, GRAFT_E_ARG,
                        "the quantization plan's layers are not those of this model");
    }
    graft_quant_plan_destroy(all);
    return st;
}

bool graft_quant_limits_equal(const graft_quant_limits *a, const graft_quant_limits *b)
{
    bool equal = a->density == b->density;
    for (int i = 0; i < GRAFT_LAYER_KINDS; i++)
        equal = equal && a->on[i] == b->on[i] && a->mse[i] == b->mse[i];
    return equal;
}

static double threshold(const graft_quant_limits *k, graft_layer_kind kind)
{
    return k->on[kind] ? k->mse[kind] : 0;
}

double graft_quant_limits_joint(const graft_quant_limits *k)
{
    double most = fmax(threshold(k, GRAFT_LAYER_CONV), threshold(k, GRAFT_LAYER_LINEAR));
    return most > 0 ? most : threshold(k, GRAFT_LAYER_ATTENTION);
}

size_t graft_quant_plan_select(graft_quant_plan *p, const graft_quant_limits *limits)
{
    bool changed = false;
    for (size_t i = 0; i < p->n; i++) {
        graft_quant_reason was = p->layer[i].reason;
        p->layer[i].reason = decide(p, &p->layer[i], limits);
        changed =
            changed || (was == GRAFT_QUANT_CHOSEN) != (p->layer[i].reason == GRAFT_QUANT_CHOSEN);
    }
    p->limits = *limits;
    if (changed) p->joint_mse = p->joint_psnr = p->joint_ssim = p->sampled_quantized = NAN;
    return graft_quant_plan_count(p, GRAFT_QUANT_CHOSEN);
}

/* Whether the plan is as before these limits but for attention, of which it measured nothing. */
static bool keeps_choice(const graft_quant_plan *p, const graft_quant_limits *limits)
{
    const int kind = GRAFT_LAYER_ATTENTION;
    graft_quant_limits same = p->limits;
    same.on[kind] = limits->on[kind];
    same.mse[kind] = limits->mse[kind];
    for (size_t i = 0; i < p->n; i++)
        if (p->layer[i].kind == GRAFT_LAYER_ATTENTION &&
            (p->layer[i].reason == GRAFT_QUANT_CHOSEN || !isnan(p->layer[i].mse) ||
             decide(p, &p->layer[i], limits) == GRAFT_QUANT_CHOSEN))
            return false;
    return graft_quant_limits_equal(&same, limits);
}

void graft_quant_plan_adopt(graft_quant_plan *p, const graft_quant_limits *limits)
{
    double most = graft_quant_limits_joint(limits);
    if (graft_quant_limits_equal(&p->limits, limits)) return;
    if (!keeps_choice(p, limits)) {
        graft_quant_plan_select(p, limits);
        if (most < 1) graft_quant_plan_back_off(p, graft_quant_plan_budget(p, most));
        return;
    }
    p->limits = *limits;
    for (size_t i = 0; i < p->n; i++)
        if (p->layer[i].kind == GRAFT_LAYER_ATTENTION)
            p->layer[i].reason = decide(p, &p->layer[i], limits);
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

graft_status graft_quant_layers(const graft_net_arch *a, graft_quant_plan **out, graft_err *e)
{
    const graft_net_shape shape = graft_net_some_shape(a);
    return graft_quant_plan_create(a, &shape, out, e);
}

graft_status graft_quant_choice_make(const graft_quant_plan *p, const graft_net_arch *a,
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
        same = same_layer(&p->layer[i], &all->layer[i]);
        if (p->layer[i].reason != GRAFT_QUANT_CHOSEN) continue;
        out->set[i / 8] |= (uint8_t)(1u << i % 8);
        any = true;
    }
    if (!any) memset(out, 0, sizeof *out);
    graft_quant_plan_destroy(all);
    return same ? GRAFT_OK
                : graft_fail(e, GRAFT_E_ARG,
                             "the quantization plan's layers are not those of this model");
}

/* Adds the attention layers that a file's metadata name, joined by commas. */
static graft_status choose_attention(const graft_quant_plan *all, const char *names,
                                     const char *path, graft_quant_choice *c, graft_err *e)
{
    if (c->bits && graft_quant_of(c->bits, c->format) != GRAFT_QUANT_INT8)
        return graft_fail(e, GRAFT_E_FORMAT, "%s: attention in integers beside weights of %s", path,
                          graft_quant_levels_name(c->bits, c->format));
    while (*names) {
        size_t n = strcspn(names, ","), i = 0;
        while (i < all->n && (all->layer[i].kind != GRAFT_LAYER_ATTENTION ||
                              strncmp(all->layer[i].name, names, n) != 0 || all->layer[i].name[n]))
            i++;
        if (i == all->n)
            return graft_fail(e, GRAFT_E_FORMAT, "%s: no attention of this model is called %.*s",
                              path, n < 100 ? (int)n : 100, names);
        c->bits = 8;
        c->set[i / 8] |= (uint8_t)(1u << i % 8);
        names += n;
        names += *names == ',';
    }
    return GRAFT_OK;
}

/* Whether another program made integers of it. */
static bool is_of_levels(const graft_st_tensor *t)
{
    return t->coded && !t->coded->floats && graft_coded_has_levels(t->coded, t->coded->hadamard);
}

static bool has_levels(const graft_safetensors *f)
{
    for (size_t i = 0; i < graft_safetensors_count(f); i++)
        if (is_of_levels(graft_safetensors_at(f, i))) return true;
    return false;
}

static void choose_levels(graft_quant_choice *c, size_t layer, const graft_coded *coded)
{
    int power = 0;
    for (int64_t group = coded->hadamard; group > 1; group /= 4) power++;
    c->bits = 8;
    c->format = GRAFT_FORMAT_INT;
    c->set[layer / 8] |= (uint8_t)(1u << layer % 8);
    c->turned[layer / 2] |= (uint8_t)(power << layer % 2 * 4);
}

graft_status graft_quant_choice_of_weights(const graft_net_arch *a, const graft_weights *w,
                                           graft_quant_choice *out, graft_err *e)
{
    graft_quant_plan *all = NULL;
    char name[160];
    const graft_safetensors *f = graft_weights_file(w);
    const char *attention = graft_safetensors_metadata(f, GRAFT_QUANTIZED_ATTENTION);
    memset(out, 0, sizeof *out);
    if (!graft_safetensors_metadata(f, GRAFT_QUANTIZED_KEY) && !has_levels(f)) return GRAFT_OK;
    graft_status st = graft_quant_layers(a, &all, e);
    for (size_t i = 0; !st && i < all->n; i++) {
        snprintf(name, sizeof name, "%s.weight", all->layer[i].name);
        const graft_st_tensor *t = graft_weights_find(w, name);
        /* Kept layers become floats again, whatever the file has. */
        if (!t || graft_quant_always_kept(all->layer[i].name)) continue;
        if (is_of_levels(t)) choose_levels(out, i, t->coded);
        if (!graft_is_quantized(t->dtype)) continue;
        out->bits = t->dtype == GRAFT_Q4 ? 4 : 8;
        out->format = t->dtype == GRAFT_QF8 ? GRAFT_FORMAT_FP8 : GRAFT_FORMAT_INT;
        out->set[i / 8] |= (uint8_t)(1u << i % 8);
    }
    if (!st && attention) st = choose_attention(all, attention, graft_safetensors_path(f), out, e);
    graft_quant_plan_destroy(all);
    return st;
}

/* 0: its rows are not turned. */
static int32_t turned_by(const graft_quant_choice *c, size_t layer)
{
    const int power = c->turned[layer / 2] >> layer % 2 * 4 & 15;
    return power ? 1 << 2 * power : 0;
}

/* What operators of a layer have. */
static graft_quant quant_of(const graft_quant_choice *c, size_t layer)
{
    return c->set[layer / 8] >> layer % 8 & 1 ? graft_quant_of(c->bits, c->format)
                                              : GRAFT_QUANT_NONE;
}

graft_status graft_quant_choice_apply(const graft_quant_choice *c, const graft_net_arch *a,
                                      graft_graph *g, graft_err *e)
{
    graft_quant_plan *all = NULL;
    graft_map chosen = GRAFT_MAP_INIT;
    char name[128];
    if (!c->bits) return GRAFT_OK;
    graft_status st = graft_quant_layers(a, &all, e);
    for (size_t i = 0; !st && i < all->n; i++)
        if (quant_of(c, i) && graft_map_put(&chosen, all->layer[i].name, &all->layer[i]))
            st = graft_fail_nomem(e, "quantization plan");
    for (size_t i = 0; !st && i < g->n_nodes; i++) {
        const graft_quant_layer *l = layer_of(g, i, name) ? graft_map_get(&chosen, name) : NULL;
        if (!l) continue;
        g->node[i].attrs.quant = quant_of(c, (size_t)(l - all->layer));
        const int32_t group = turned_by(c, (size_t)(l - all->layer));
        if (group && g->node[i].op == GRAFT_OP_LINEAR) graft_graph_turn_rows(g, i, group);
    }
    graft_map_finish(&chosen);
    graft_quant_plan_destroy(all);
    return st;
}

graft_status graft_quant_weights_hash(const graft_net_arch *a, graft_weights *w, graft_hash *out,
                                      graft_err *e)
{
    const graft_net_shape shape = graft_net_some_shape(a);
    graft_graph *g = NULL;
    graft_weights *plain = NULL;
    graft_hash h = {0, 0}, part;
    graft_status st;
    GRAFT_TRY(graft_net_build(a, &shape, shape.batch, &g, e));
    GRAFT_TRY(graft_weights_plain(w, &plain, e));
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
