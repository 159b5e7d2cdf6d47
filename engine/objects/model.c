/* Models: copies with another option, which share what did not change. */
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "engine/image/latent_operation.h"
#include "engine/image/resize.h"
#include "engine/models/transformers/auraflow.h"
#include "engine/models/transformers/hidream.h"
#include "engine/models/transformers/flux2.h"
#include "engine/objects/alike.h"
#include "engine/objects/control.h"
#include "engine/objects/objects.h"
#include "engine/objects/quantizer.h"
#include "engine/objects/sight.h"

graft_model *graft_model_retain(graft_model *m)
{
    atomic_fetch_add(&m->refs, 1);
    return m;
}

void graft_model_release(graft_model *m)
{
    if (!m || atomic_fetch_sub(&m->refs, 1) != 1) return;
    graft_engine_release_weights(m->engine, m->weights);
    graft_quantizer_release(m->quantizer);
    graft_hypernetwork_release(m->hyper.net);
    graft_control_release(m->control);
    graft_control_release(m->within);
    graft_cond_release((graft_cond *)(uintptr_t)m->third.prompt);
    for (int i = 0; i < m->n_seen; i++) {
        graft_sight_release(m->seen[i].sight);
        graft_image_release(m->seen[i].mask);
    }
    graft_free(m);
}

graft_model *graft_model_copy(const graft_model *m)
{
    graft_model *n = graft_malloc(sizeof *n);
    if (!n) return NULL;
    memcpy(n, m, sizeof *n);
    atomic_init(&n->refs, 1);
    graft_weights_retain(n->weights);
    graft_quantizer_retain(n->quantizer);
    graft_hypernetwork_retain(n->hyper.net);
    graft_control_retain(n->control);
    graft_control_retain(n->within);
    if (n->third.prompt) graft_cond_retain((graft_cond *)(uintptr_t)n->third.prompt);
    for (int i = 0; i < n->n_seen; i++) {
        graft_sight_retain(n->seen[i].sight);
        if (n->seen[i].mask) graft_image_retain(n->seen[i].mask);
    }
    return n;
}

void graft_model_scale_latent(const graft_model *m, const float *latent, size_t n, int64_t area,
                              float *out)
{
    const float scale = (float)m->scale_factor, shift = (float)m->latent_shift;
    const graft_latent_planes *p = m->planes;
    for (size_t i = 0; i < n; i++) {
        const size_t c = p ? i / (size_t)area % (size_t)p->n : 0;
        out[i] = p ? (latent[i] - p->mean[c]) / p->deviation[c] : (latent[i] - shift) * scale;
    }
}

void graft_model_unscale_latent(const graft_model *m, const float *x, size_t n, int64_t area,
                                float *out)
{
    const float scale = (float)m->scale_factor, shift = (float)m->latent_shift;
    const graft_latent_planes *p = m->planes;
    for (size_t i = 0; i < n; i++) {
        const size_t c = p ? i / (size_t)area % (size_t)p->n : 0;
        out[i] = p ? x[i] * p->deviation[c] + p->mean[c] : x[i] / scale + shift;
    }
}

double graft_model_latent_gain(const graft_model *m)
{
    double sum = 0;
    if (!m->planes) return m->scale_factor;
    for (int i = 0; i < m->planes->n; i++)
        sum += 1 / (double)m->planes->deviation[i] / (double)m->planes->deviation[i];
    return sqrt(sum / m->planes->n);
}

graft_status graft_model_needs_unet(const graft_model *m, const char *who, graft_err *e)
{
    if (graft_net_is_unet(&m->arch)) return GRAFT_OK;
    return graft_fail(e, GRAFT_E_UNSUPPORTED,
                      "%s changes the blocks of a UNet; this model is a transformer", who);
}

graft_status graft_model_sampling(const graft_model *m, const char *kind, bool zsnr,
                                  graft_model **out, graft_err *e)
{
    static const struct {
        const char *name;
        graft_prediction prediction;
    } kinds[] = {{"eps", GRAFT_PREDICT_EPS},
                 {"v_prediction", GRAFT_PREDICT_V},
                 {"x0", GRAFT_PREDICT_X0},
                 {"lcm", GRAFT_PREDICT_LCM}};
    if (!graft_net_is_unet(&m->arch))
        return graft_fail(
            e, GRAFT_E_UNSUPPORTED,
            "sampling %s is for UNets; this model is a flow, which ModelSamplingSD3 changes", kind);
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        if (strcmp(kinds[i].name, kind) != 0) continue;
        graft_model *n = graft_model_copy(m);
        if (!n) return graft_fail_nomem(e, "model");
        n->prediction = kinds[i].prediction;
        n->zsnr = zsnr;
        n->continuous = (struct graft_continuous){.time = GRAFT_TIME_STEPS};
        n->sampling_given = true;
        *out = n;
        return GRAFT_OK;
    }
    return graft_fail(e, GRAFT_E_UNSUPPORTED, "sampling %s is not supported", kind);
}

graft_status graft_model_sampling_flow(const graft_model *m, double shift, bool fine,
                                       graft_model **out, graft_err *e)
{
    /* Below that 1 + (shift - 1) is not shift any more in float32. */
    if (!(shift >= 0.001 && shift <= 100))
        return graft_fail(e, GRAFT_E_ARG, "a shift of %g is not between 0.001 and 100", shift);
    graft_model *n = graft_model_copy(m);
    if (!n) return graft_fail_nomem(e, "model");
    n->prediction = GRAFT_PREDICT_FLOW;
    n->flow_shift = shift;
    n->flow_steps = fine ? GRAFT_SCHEDULE_MOST : GRAFT_SCHEDULE_STEPS;
    n->zsnr = false;
    n->continuous = (struct graft_continuous){.time = GRAFT_TIME_STEPS};
    n->sampling_given = true;
    *out = n;
    return GRAFT_OK;
}

graft_status graft_model_sampling_continuous(const graft_model *m,
                                             const graft_continuous_options *o, graft_model **out,
                                             graft_err *e)
{
    static const struct {
        const char *name;
        graft_prediction prediction;
        double data;
    } kinds[] = {{"eps", GRAFT_PREDICT_EPS, 1},
                 {"v_prediction", GRAFT_PREDICT_V, 1},
                 {"edm", GRAFT_PREDICT_EDM, 0.5}};
    graft_status st = graft_model_needs_unet(m, "continuous sampling", e);
    if (st) return st;
    if (!(o->sigma_min > 0 && o->sigma_min < o->sigma_max && isfinite(o->sigma_max)))
        return graft_fail(e, GRAFT_E_ARG, "sigma_min %g must be above 0 and below sigma_max %g",
                          o->sigma_min, o->sigma_max);
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        if (strcmp(kinds[i].name, o->kind) != 0) continue;
        graft_model *n = graft_model_copy(m);
        if (!n) return graft_fail_nomem(e, "model");
        n->prediction = kinds[i].prediction;
        n->zsnr = false;
        n->continuous =
            (struct graft_continuous){.time = o->angle ? GRAFT_TIME_ANGLE : GRAFT_TIME_LOG,
                                      .low = o->sigma_min,
                                      .high = o->sigma_max,
                                      .data = kinds[i].data};
        n->sampling_given = true;
        *out = n;
        return GRAFT_OK;
    }
    return graft_fail(e, GRAFT_E_UNSUPPORTED, "continuous sampling %s is not supported", o->kind);
}

graft_status graft_model_rescale_cfg(const graft_model *m, double multiplier, graft_model **out,
                                     graft_err *e)
{
    graft_model *n = graft_model_copy(m);
    if (!n) return graft_fail_nomem(e, "model");
    n->rescale_cfg = multiplier;
    *out = n;
    return GRAFT_OK;
}

static bool cfg_numbers_allowed(const graft_cfg_change *c)
{
    if (c->kind == GRAFT_CFG_OPERATED) return false;
    const bool finite = isfinite(c->strength) && isfinite(c->limit) && isfinite(c->momentum);
    return finite && c->limit >= 0 && (c->strength >= 0 || c->kind == GRAFT_CFG_PROJECTED);
}

static graft_status check_shares(double start, double end, graft_err *e)
{
    if (start >= 0 && start <= 1 && end >= 0 && end <= 1) return GRAFT_OK;
    return graft_fail(e, GRAFT_E_ARG, "start_percent %g and end_percent %g must be between 0 and 1",
                      start, end);
}

/* A model with one change more; cfg_change[n_cfg_changes - 1] is to be set. */
static graft_status one_more(const graft_model *m, graft_model **out, graft_err *e)
{
    if (m->n_cfg_changes == GRAFT_CFG_CHANGES)
        return graft_fail(e, GRAFT_E_LIMIT, "guidance is changed at most %d times",
                          GRAFT_CFG_CHANGES);
    *out = graft_model_copy(m);
    if (!*out) return graft_fail_nomem(e, "model");
    (*out)->n_cfg_changes++;
    return GRAFT_OK;
}

graft_status graft_model_change_cfg(const graft_model *m, const graft_cfg_change *change,
                                    graft_model **out, graft_err *e)
{
    if (!cfg_numbers_allowed(change))
        return graft_fail(e, GRAFT_E_ARG,
                          "guidance with a strength of %g, a limit of %g and a momentum of %g",
                          change->strength, change->limit, change->momentum);
    graft_model *n;
    const graft_status st = one_more(m, &n, e);
    if (st) return st;
    n->cfg_change[n->n_cfg_changes - 1] = *change;
    *out = n;
    return GRAFT_OK;
}

graft_status graft_model_operate_cfg(const graft_model *m, const graft_latent_operation *operation,
                                     double start, double end, graft_model **out, graft_err *e)
{
    graft_model *n;
    graft_status st = graft_latent_operation_check(operation, e);
    if (!st) st = check_shares(start, end, e);
    if (!st) st = one_more(m, &n, e);
    if (st) return st;
    n->cfg_change[n->n_cfg_changes - 1] = (graft_cfg_change){.kind = GRAFT_CFG_OPERATED};
    n->cfg_operation[n->n_cfg_changes - 1] = (struct graft_cfg_operation){*operation, start, end};
    *out = n;
    return GRAFT_OK;
}

graft_status graft_model_perp_neg(const graft_model *m, const graft_cond *empty, double scale,
                                  graft_model **out, graft_err *e)
{
    if (!(scale >= 0 && scale <= 1000))
        return graft_fail(e, GRAFT_E_ARG, "a neg_scale of %g is not between 0 and 1000", scale);
    graft_model *n = graft_model_copy(m);
    if (!n) return graft_fail_nomem(e, "model");
    graft_cond_release((graft_cond *)(uintptr_t)n->third.prompt);
    n->third = (graft_third){graft_cond_retain((graft_cond *)(uintptr_t)empty),
                             GRAFT_THIRD_PERPENDICULAR, scale};
    *out = n;
    return GRAFT_OK;
}

graft_status graft_model_differential(const graft_model *m, double strength, graft_model **out,
                                      graft_err *e)
{
    if (!(strength >= 0 && strength <= 1))
        return graft_fail(e, GRAFT_E_ARG, "a strength of %g is not between 0 and 1", strength);
    graft_model *n = graft_model_copy(m);
    if (!n) return graft_fail_nomem(e, "model");
    n->differential = strength;
    *out = n;
    return GRAFT_OK;
}

graft_status graft_model_perturbed_attention(const graft_model *m, double scale, graft_model **out,
                                             graft_err *e)
{
    if (!(scale >= 0 && scale <= 1000))
        return graft_fail(e, GRAFT_E_ARG, "a scale of %g is not between 0 and 1000", scale);
    graft_status st = graft_model_needs_unet(m, "Perturbed-attention guidance", e);
    if (st) return st;
    graft_model *n = graft_model_copy(m);
    if (!n) return graft_fail_nomem(e, "model");
    n->perturbed = scale;
    *out = n;
    return GRAFT_OK;
}

graft_status graft_model_self_attention(const graft_model *m, double scale, double blur_sigma,
                                        graft_model **out, graft_err *e)
{
    if (!(scale >= -100 && scale <= 100))
        return graft_fail(e, GRAFT_E_ARG, "a scale of %g is not between -100 and 100", scale);
    if (!(blur_sigma >= 0 && blur_sigma <= 1000))
        return graft_fail(e, GRAFT_E_ARG, "a blur_sigma of %g is not between 0 and 1000",
                          blur_sigma);
    graft_status st = graft_model_needs_unet(m, "Self-attention guidance", e);
    if (st) return st;
    graft_model *n = graft_model_copy(m);
    if (!n) return graft_fail_nomem(e, "model");
    n->self = (struct graft_self){scale, blur_sigma};
    *out = n;
    return GRAFT_OK;
}

graft_status graft_model_override_cfg(const graft_model *m, const graft_cfg_override *o,
                                      graft_model **out, graft_err *e)
{
    graft_status st = check_shares(o->start, o->end, e);
    if (st) return st;
    if (!isfinite(o->cfg)) return graft_fail(e, GRAFT_E_ARG, "a cfg of %g", o->cfg);
    if (m->n_cfg_overrides == GRAFT_CFG_OVERRIDES)
        return graft_fail(e, GRAFT_E_LIMIT, "cfg is overridden at most %d times",
                          GRAFT_CFG_OVERRIDES);
    graft_model *n = graft_model_copy(m);
    if (!n) return graft_fail_nomem(e, "model");
    n->cfg_override[n->n_cfg_overrides++] = *o;
    *out = n;
    return GRAFT_OK;
}

/* The blocks that a text has the numbers of; larger numbers than there can be are none. */
static uint64_t blocks_in(const char *text, int32_t depth)
{
    uint64_t blocks = 0;
    while (*text) {
        int64_t n = 0;
        if (*text < '0' || *text > '9') {
            text++;
            continue;
        }
        for (; *text >= '0' && *text <= '9'; text++)
            if (n < 1000) n = 10 * n + (*text - '0');
        if (n < depth && n < 64) blocks |= (uint64_t)1 << n;
    }
    return blocks;
}

/* Whether its blocks are of two streams, then of one. */
static bool has_two_kinds(const graft_model *m)
{
    return m->arch.kind == GRAFT_NET_FLUX || m->arch.kind == GRAFT_NET_AURAFLOW;
}

static graft_status check_skip(const graft_model *m, const graft_skip_options *o, graft_err *e)
{
    if (m->arch.kind != GRAFT_NET_MMDIT && !has_two_kinds(m))
        return graft_fail(e, GRAFT_E_UNSUPPORTED,
                          "skip-layer guidance is for the transformers of Stable Diffusion 3, "
                          "FLUX.1 and AuraFlow%s",
                          graft_net_is_unet(&m->arch)
                              ? "; this model is a UNet, for which there is "
                                "PerturbedAttentionGuidance"
                              : "");
    if (!(o->scale >= 0 && o->scale <= 1000))
        return graft_fail(e, GRAFT_E_ARG, "a scale of %g is not between 0 and 1000", o->scale);
    if (!(o->rescale >= 0 && o->rescale <= 10))
        return graft_fail(e, GRAFT_E_ARG, "a rescaling_scale of %g is not between 0 and 10",
                          o->rescale);
    return check_shares(o->start, o->end, e);
}

static graft_status find_skipped(const graft_model *m, const graft_skip_options *o,
                                 uint64_t *blocks, graft_err *e)
{
    graft_status st = check_skip(m, o, e);
    if (st) return st;
    /* Those of other kinds are zeros. */
    const graft_net_arch *a = &m->arch;
    const int32_t depth = a->flux.depth + a->auraflow.depth + a->mmdit.depth;
    const int32_t single = a->flux.single_depth + a->auraflow.single_depth;
    *blocks = blocks_in(o->layers, depth);
    if (single && depth < 64) *blocks |= blocks_in(o->single_layers, single) << depth;
    if (*blocks) return GRAFT_OK;
    if (has_two_kinds(m))
        return graft_fail(e, GRAFT_E_ARG,
                          "layers \"%.60s\" and \"%.60s\" name none of this model's blocks, which "
                          "are 0 to %d and 0 to %d",
                          o->layers, o->single_layers, depth - 1, single - 1);
    return graft_fail(e, GRAFT_E_ARG,
                      "layers \"%.60s\" names none of this model's blocks, which are 0 to %d",
                      o->layers, depth - 1);
}

graft_status graft_model_skip_blocks(const graft_model *m, const graft_skip_options *o,
                                     graft_model **out, graft_err *e)
{
    uint64_t blocks;
    graft_status st = find_skipped(m, o, &blocks, e);
    if (st) return st;
    graft_model *n = graft_model_copy(m);
    if (!n) return graft_fail_nomem(e, "model");
    n->perturbed = o->scale;
    n->skip = (struct graft_skip_layers){blocks, o->start, o->end, o->rescale};
    *out = n;
    return GRAFT_OK;
}

graft_status graft_model_skip_negative(const graft_model *m, const graft_skip_options *o,
                                       graft_model **out, graft_err *e)
{
    const graft_skip_options plain = {o->layers, o->single_layers, 0, o->start, o->end, 0};
    uint64_t blocks;
    graft_status st = find_skipped(m, &plain, &blocks, e);
    if (st) return st;
    graft_model *n = graft_model_copy(m);
    if (!n) return graft_fail_nomem(e, "model");
    n->skip_negative = (struct graft_skip_negative){blocks, o->start, o->end};
    *out = n;
    return GRAFT_OK;
}

graft_status graft_model_skip_layers(const graft_model *m, const char *layers, double scale,
                                     double start, double end, graft_model **out, graft_err *e)
{
    const graft_skip_options o = {layers, "", scale, start, end, 0};
    if (has_two_kinds(m))
        return graft_fail(e, GRAFT_E_UNSUPPORTED,
                          "this skip-layer guidance is for Stable Diffusion 3's transformers; for "
                          "FLUX.1's and AuraFlow's there is SkipLayerGuidanceDiT");
    return graft_model_skip_blocks(m, &o, out, e);
}

graft_status graft_model_freeu(const graft_model *m, const graft_freeu_options *o,
                               graft_model **out, graft_err *e)
{
    const double factor[GRAFT_FREEU_FACTORS] = {o->b1, o->b2, o->s1, o->s2};
    static const char *const name[GRAFT_FREEU_FACTORS] = {"b1", "b2", "s1", "s2"};
    if (o->version != GRAFT_FREEU_V1 && o->version != GRAFT_FREEU_V2)
        return graft_fail(e, GRAFT_E_ARG, "FreeU has no version %lld", (long long)o->version);
    for (int i = 0; i < GRAFT_FREEU_FACTORS; i++)
        if (!(factor[i] >= 0 && factor[i] <= 10))
            return graft_fail(e, GRAFT_E_ARG, "%s %g is not between 0 and 10", name[i], factor[i]);
    graft_status st = graft_model_needs_unet(m, "FreeU", e);
    if (st) return st;
    graft_model *n = graft_model_copy(m);
    if (!n) return graft_fail_nomem(e, "model");
    n->freeu.version = (graft_freeu_version)o->version;
    for (int i = 0; i < GRAFT_FREEU_FACTORS; i++) n->freeu.factor[i] = (float)factor[i];
    *out = n;
    return GRAFT_OK;
}

graft_status graft_model_deepcache(const graft_model *m, const graft_deepcache_options *o,
                                   graft_model **out, graft_err *e)
{
    bool quadratic = strcmp(o->schedule, "quadratic") == 0;
    int32_t cut = 0; /* the first convolution */
    if (!quadratic && strcmp(o->schedule, "uniform") != 0)
        return graft_fail(e, GRAFT_E_ARG, "schedule %s is unknown: uniform or quadratic",
                          o->schedule);
    if (o->cache_interval < 1)
        return graft_fail(e, GRAFT_E_ARG, "cache_interval %lld is below 1",
                          (long long)o->cache_interval);
    if (o->start_step < 0 || o->end_step < 0)
        return graft_fail(e, GRAFT_E_ARG, "start_step and end_step must not be negative");
    if (!(o->max_error >= 0 && o->max_error <= 1))
        return graft_fail(e, GRAFT_E_ARG, "max_error %g is not between 0 and 1", o->max_error);
    graft_status st = graft_model_needs_unet(m, "DeepCache", e);
    if (!st && !o->outermost)
        st = graft_unet_cut(&m->arch.unet, o->cache_layer_id, o->cache_block_id, &cut, e);
    if (st) return st;
    graft_model *n = graft_model_copy(m);
    if (!n) return graft_fail_nomem(e, "model");
    n->deepcache = (graft_deepcache){.interval = o->cache_interval,
                                     .start = o->start_step,
                                     .end = o->end_step,
                                     .cut = cut,
                                     .quadratic = quadratic,
                                     .max_error = o->max_error};
    *out = n;
    return GRAFT_OK;
}

graft_status graft_model_easycache(const graft_model *m, const graft_easycache_options *o,
                                   graft_model **out, graft_err *e)
{
    if (!(o->threshold >= 0 && o->threshold <= 3))
        return graft_fail(e, GRAFT_E_ARG, "reuse_threshold %g is not between 0 and 3",
                          o->threshold);
    graft_status st = check_shares(o->start, o->end, e);
    if (st) return st;
    graft_model *n = graft_model_copy(m);
    if (!n) return graft_fail_nomem(e, "model");
    n->easycache = (graft_easycache){
        .threshold = o->threshold, .start = o->start, .end = o->end, .verbose = o->verbose};
    *out = n;
    return GRAFT_OK;
}

graft_status graft_model_hypertile(const graft_model *m, const graft_hypertile_options *o,
                                   graft_model **out, graft_err *e)
{
    const int64_t most = 1 << 20; /* of anything: the smaller numbers of an int32_t */
    if (o->tile_size < 1 || o->swap_size < 1 || o->max_depth < 0 || o->tile_size > most ||
        o->swap_size > most || o->max_depth > most)
        return graft_fail(e, GRAFT_E_ARG,
                          "tile_size %lld, swap_size %lld, max_depth %lld: out of "
                          "range",
                          (long long)o->tile_size, (long long)o->swap_size,
                          (long long)o->max_depth);
    graft_status st = graft_model_needs_unet(m, "HyperTile", e);
    if (st) return st;
    graft_model *n = graft_model_copy(m);
    if (!n) return graft_fail_nomem(e, "model");
    n->hypertile = (graft_hypertile){.tile = (int32_t)(o->tile_size < 32 ? 32 : o->tile_size) / 8,
                                     .swap = (int32_t)o->swap_size,
                                     .depth = (int32_t)o->max_depth,
                                     .scale = o->scale_depth};
    *out = n;
    return GRAFT_OK;
}

graft_status graft_model_merge_tokens(const graft_model *m, double ratio, graft_model **out,
                                      graft_err *e)
{
    if (!(ratio >= 0 && ratio <= 1))
        return graft_fail(e, GRAFT_E_ARG, "ratio %g is not between 0 and 1", ratio);
    graft_status st = graft_model_needs_unet(m, "TomePatchModel", e);
    if (st) return st;
    graft_model *n = graft_model_copy(m);
    if (!n) return graft_fail_nomem(e, "model");
    n->merged = (int32_t)lround(ratio * GRAFT_MERGED_UNIT);
    *out = n;
    return GRAFT_OK;
}

static graft_status feature_method(const char *name, int32_t *out, graft_err *e)
{
    graft_resize_method method;
    graft_status st = graft_resize_method_parse(name, true, &method, e);
    if (st) return st;
    if (method == GRAFT_RESIZE_BISLERP)
        return graft_fail(e, GRAFT_E_UNSUPPORTED,
                          "bislerp turns vectors, which is for latents of a few channels: features "
                          "are resized by bicubic, bilinear, area or nearest-exact");
    *out = (int32_t)method;
    return GRAFT_OK;
}

graft_status graft_model_downscale(const graft_model *m, const graft_downscale_options *o,
                                   graft_model **out, graft_err *e)
{
    int32_t down = 0, up = 0;
    graft_status st = graft_model_needs_unet(m, "PatchModelAddDownscale", e);
    if (st) return st;
    if (o->block_number < 1 || o->block_number >= m->arch.unet.n_input)
        return graft_fail(e, GRAFT_E_ARG,
                          "block_number %lld is out of range: this model has input blocks 1 to %d",
                          (long long)o->block_number, m->arch.unet.n_input - 1);
    if (!(o->factor >= 0.1 && o->factor <= 9))
        return graft_fail(e, GRAFT_E_ARG, "downscale_factor %g is not between 0.1 and 9",
                          o->factor);
    st = check_shares(o->start, o->end, e);
    if (!st) st = feature_method(o->down_method, &down, e);
    if (!st) st = feature_method(o->up_method, &up, e);
    if (st) return st;
    graft_model *n = graft_model_copy(m);
    if (!n) return graft_fail_nomem(e, "model");
    memset(&n->downscale, 0, sizeof n->downscale);
    int32_t thousandths = (int32_t)lround(o->factor * 1000);
    if (thousandths != 1000)
        n->downscale = (struct graft_downscale){.shrink = {.block = (int32_t)o->block_number,
                                                           .before_skip = !o->after_skip,
                                                           .thousandths = thousandths,
                                                           .down = down,
                                                           .up = up},
                                                .start = o->start,
                                                .end = o->end};
    *out = n;
    return GRAFT_OK;
}

graft_status graft_model_with_plan(const graft_model *m, const graft_quant_plan *plan,
                                   graft_model **out, graft_err *e)
{
    graft_quant_choice choice;
    graft_status st = graft_quant_choice_make(plan, &m->arch, &choice, e);
    if (st) return st;
    graft_model *n = graft_model_copy(m);
    if (!n) return graft_fail_nomem(e, "model");
    memcpy(&n->quant, &choice, sizeof choice);
    *out = n;
    return GRAFT_OK;
}

#define SHORT_WORDS 64  /* of a short prompt, filled up */
#define TOLD_WORDS  128 /* of one behind what the model is to be */

static int64_t usual_words(const graft_net_arch *a)
{
    switch (a->kind) {
    case GRAFT_NET_FLUX:
        return a->flux.words          ? a->flux.words
               : a->flux.approximator ? SHORT_WORDS
                                      : GRAFT_FLUX_TOKENS;
    case GRAFT_NET_ZIMAGE:
        return a->zimage.key_heads ? TOLD_WORDS : SHORT_WORDS;
    case GRAFT_NET_OMNIGEN2:
        return TOLD_WORDS;
    case GRAFT_NET_QWEN_IMAGE:
    case GRAFT_NET_KREA2:
    case GRAFT_NET_ANIMA:
    case GRAFT_NET_QWEN_IMAGE21:
    case GRAFT_NET_IDEOGRAM4:
    case GRAFT_NET_ERNIE_IMAGE:
        return SHORT_WORDS;
    case GRAFT_NET_FLUX2:
        return GRAFT_FLUX2_TOKENS;
    case GRAFT_NET_AURAFLOW:
        return GRAFT_AURAFLOW_TOKENS;
    case GRAFT_NET_HIDREAM:
        return GRAFT_HIDREAM_TOKENS;
    default:
        return GRAFT_TEXT_CHUNK;
    }
}

/* Whether it is usually run without negative prompts: where distilled models are the usual ones,
 * and where another model has those prompts. */
static bool usually_alone(const graft_net_arch *a)
{
    return (a->kind == GRAFT_NET_FLUX && !a->flux.approximator && !a->flux.words) ||
           (a->kind == GRAFT_NET_ZIMAGE && !a->zimage.key_heads) || a->kind == GRAFT_NET_FLUX2 ||
           a->kind == GRAFT_NET_KREA2 || a->kind == GRAFT_NET_IDEOGRAM4 ||
           a->kind == GRAFT_NET_QWEN_IMAGE21;
}

graft_status graft_model_compile(const graft_model *m, const graft_compile_options *options,
                                 const graft_task *task, graft_model **out, graft_err *e)
{
    graft_model *n = graft_model_copy(m);
    if (!n) return graft_fail_nomem(e, "model");
    graft_status st = graft_options_from(n->engine, options, &n->options, e);
    if (!st && options->width > 0 && options->height > 0) {
        int64_t batch = options->batch_size > 0 ? options->batch_size : 1;
        graft_unet_use use = {.pictures = batch,
                              .entries = usually_alone(&n->arch) ? 1 : 2,
                              .height = options->height / graft_net_cell(&n->arch),
                              .width = options->width / graft_net_cell(&n->arch),
                              .tokens = usual_words(&n->arch),
                              .perturbed = graft_model_perturbs(n) ? batch : 0,
                              .control = n->control != NULL,
                              .steered = graft_control_steered(n, n->control),
                              .within = n->within != NULL,
                              .attends = n->n_seen > 0};
        const bool itself = graft_model_guides_itself(n);
        if (itself) use.watched_from = use.watched = batch;
        st = graft_model_check_self(n, e);
        if (!st) st = graft_model_prepare(n, &use, task, e);
        use.entries = 1; /* the negative prompt once more */
        use.perturbed = use.watched_from = use.watched = 0;
        if (!st && itself) st = graft_model_prepare(n, &use, task, e);
    }
    if (st)
        graft_model_release(n);
    else
        *out = n;
    return st;
}
