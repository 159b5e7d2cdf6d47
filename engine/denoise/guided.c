/* The guided denoiser's making and end: what a run needs in memory, and what does not go together.
 */
#include "engine/denoise/guided.h"

#include <string.h>

#include "base/alloc.h"
#include "base/size.h"
#include "engine/denoise/features.h"
#include "engine/denoise/unclip.h"
#include "engine/models/encoders/anima_adapter.h"
#include "engine/task.h"

/* Predictions of one call: of each entry, and the perturbed ones. */
static size_t results(const graft_guided *g)
{
    return graft_guided_slots(&g->c) + (graft_model_perturbs(g->c.model) ? g->c.positive->n : 0);
}

/* Of a call's x in all. */
static size_t x_values(const graft_guided *g)
{
    const graft_box whole = {.height = g->c.shape[2], .width = g->c.shape[3]};
    size_t n = 0;
    for (size_t i = 0; i < graft_guided_slots(&g->c); i++)
        n += (size_t)(g->c.shape[0] * graft_known_x_values(&g->known, &g->c, i, &whole));
    return n;
}

/* Of its predictions, before they are cut. */
static size_t out_values(const graft_guided *g)
{
    const graft_guided_config *c = &g->c;
    size_t planes = (size_t)(c->shape[0] * c->shape[1]) * results(g);
    return planes * (size_t)(graft_net_stacked(&c->model->arch, c->shape[2], c->layers) *
                             graft_net_side(&c->model->arch, c->shape[3]));
}

static graft_status allocate(graft_guided *g, graft_err *e)
{
    size_t entries = graft_guided_slots(&g->c), n = (size_t)g->n, batch = (size_t)g->c.shape[0];
    size_t adm = (size_t)g->c.model->arch.adm_channels;
    size_t widest = 0;
    for (size_t i = 0; i < entries; i++) {
        const graft_cond_entry *k = graft_guided_entry(&g->c, i);
        size_t size = (size_t)(k->tokens * k->width);
        if (size > widest) widest = size;
    }
    g->active = graft_calloc(entries, sizeof *g->active);
    g->x = graft_malloc_array(n, sizeof(float));
    g->scaled = graft_malloc_array(n, sizeof(float));
    bool sums = true;
    for (int side = 0; side < GRAFT_SIDES; side++) {
        if (!graft_guided_list(&g->c, side)) continue;
        g->sum[side] = graft_malloc_array(n, sizeof(float));
        sums = sums && g->sum[side];
    }
    bool perturbs = graft_model_perturbs(g->c.model);
    if (perturbs) g->perturbed = graft_malloc_array(n, sizeof(float));
    g->batch_x = graft_malloc_array(x_values(g), sizeof(float));
    g->batch_latent = g->batch_x;
    if (g->known.joins) g->batch_latent = graft_malloc_array(n * entries, sizeof(float));
    g->batch_out = graft_malloc_array(out_values(g), sizeof(float));
    g->timesteps = graft_malloc_array(batch * entries, sizeof(float));
    g->context = graft_malloc_array(batch * entries, widest * sizeof(float));
    g->y = graft_malloc_array(batch * entries, (adm + 1) * sizeof(float)); /* and a count */
    bool ok = g->active && g->x && g->scaled && sums && g->batch_x && (g->perturbed || !perturbs) &&
              g->batch_latent && g->batch_out && g->timesteps && g->context && g->y;
    return ok ? GRAFT_OK : graft_fail_nomem(e, "sampling buffers");
}

/* A window of one step has nothing to reuse, though its name promises speed. A run of one step is
 * nobody's mistake. */
static void warn_idle(const graft_guided_config *c)
{
    const graft_deepcache *d = &c->model->deepcache;
    int64_t steps = (int64_t)c->steps, end = d->end < steps ? d->end : steps;
    if (c->task && steps > 1 && end - d->start < 2)
        graft_log_printf(&c->task->log, GRAFT_LOG_WARN,
                         "DeepCache reuses nothing in these %lld steps: its start_step is %lld, "
                         "its end_step %lld",
                         (long long)steps, (long long)d->start, (long long)d->end);
}

/* DeepCache, unless its interval says that every step is whole. */
static graft_status make_features(graft_guided *g, graft_err *e)
{
    const graft_model *m = g->c.model;
    if (m->deepcache.interval <= 1) return GRAFT_OK;
    graft_backend *backend;
    warn_idle(&g->c);
    graft_status st = graft_options_resolve(m->engine, &m->options, &backend, &g->feature_dtype, e);
    if (st) return st;
    const graft_net_shape shape = {.batch = g->c.shape[0],
                                   .height = g->c.shape[2],
                                   .width = g->c.shape[3],
                                   .act_dtype = g->feature_dtype,
                                   .variant = GRAFT_STORE,
                                   .cut = m->deepcache.cut};
    int64_t dim[4], values;
    graft_unet_feature_shape(&m->arch.unet, &shape, dim);
    if (!graft_size_product(dim, 4, &values) ||
        !graft_size_mul((size_t)values, graft_dtype_size(g->feature_dtype), &g->feature_bytes))
        return graft_fail(e, GRAFT_E_ARG, "the latent is too large");
    g->feature = graft_malloc_array(results(g), g->feature_bytes);
    if (!g->feature) return graft_fail_nomem(e, "DeepCache");
    return graft_features_create(&m->deepcache, g->c.steps, results(g), (size_t)g->n, &g->features,
                                 e);
}

/* Those that look on at a model's calls see the model alone. */
static bool any_hooks(const graft_guided_config *c)
{
    for (size_t i = 0; i < graft_guided_slots(c) && !c->tap; i++)
        if (graft_guided_entry(c, i)->hooks) return true;
    return false;
}

static graft_status make_hooked(graft_guided *g, graft_err *e)
{
    g->hooks = any_hooks(&g->c);
    if (!g->hooks || !g->features) return GRAFT_OK;
    g->kept_weights = graft_calloc(graft_guided_slots(&g->c), sizeof *g->kept_weights);
    return g->kept_weights ? GRAFT_OK : graft_fail_nomem(e, "sampling with hooks");
}

/* Anima is told of words that its adapter knows, and nobody else is. */
static graft_status check_words(const graft_net_arch *a, const graft_cond_entry *k,
                                const char *what, graft_err *e)
{
    const bool anima = a->kind == GRAFT_NET_ANIMA;
    const float *told = k->pooled;
    if (k->worded != anima)
        return graft_fail(e, GRAFT_E_ARG, "the %s conditioning is %sfor Anima, and the model is %s",
                          what, anima ? "not " : "", anima ? "Anima" : "another");
    for (int64_t i = 0; anima && i < (int64_t)told[2 * GRAFT_ANIMA_WORDS]; i++)
        if (!(told[i] >= 0 && told[i] < (float)a->anima.words))
            return graft_fail(e, GRAFT_E_ARG,
                              "word %.0f of the %s conditioning is outside of the model's table of "
                              "%d",
                              (double)told[i], what, a->anima.words);
    return GRAFT_OK;
}

static graft_status check_conditioning(const graft_guided_config *c, const graft_cond *list,
                                       const char *what, graft_err *e)
{
    const graft_net_arch *a = &c->model->arch;
    for (size_t i = 0; i < list->n; i++) {
        const graft_cond_entry *k = list->entry[i];
        if (k->width != a->context_dim)
            return graft_fail(e, GRAFT_E_ARG,
                              "the %s conditioning has width %lld, this model takes %d: it comes "
                              "from another kind of text encoder",
                              what, (long long)k->width, a->context_dim);
        if (c->model->promptless && k->filled < k->tokens)
            return graft_fail(e, GRAFT_E_ARG,
                              "the %s conditioning is a prompt, and the model is the one that sees "
                              "none: DualModelGuider has it as model_negative, with zeros "
                              "(ConditioningZeroOut) or nothing as the negative prompt",
                              what);
        graft_status st = check_words(a, k, what, e);
        if (st) return st;
    }
    return GRAFT_OK;
}

static graft_status check_third(const graft_guided_config *c, graft_err *e)
{
    if (!c->third.prompt) return GRAFT_OK;
    graft_status st = check_conditioning(c, c->third.prompt, "third", e);
    if (!st && c->model->rescale_cfg > 0)
        st = graft_fail(e, GRAFT_E_UNSUPPORTED,
                        "RescaleCFG is not defined for guidance by three prompts");
    if (!st && c->model->n_cfg_changes)
        st =
            graft_fail(e, GRAFT_E_UNSUPPORTED,
                       "guidance by three prompts has no positive and negative prediction alone "
                       "that APG, CFGNorm, CFGZeroStar, LatentApplyOperationCFG, Mahiro, RenormCFG "
                       "or TCFG could change");
    if (st) return st;
    return graft_model_check_downscale(c->model, c->positive, c->third.prompt, e);
}

graft_status graft_guided_create(const graft_guided_config *config, graft_guided **out,
                                 graft_err *e)
{
    graft_guided *g = graft_calloc(1, sizeof *g);
    if (!g) return graft_fail_nomem(e, "sampling");
    g->c = *config;
    g->cfg = config->cfg;
    g->per = config->shape[1] * config->shape[2] * config->shape[3];
    g->n = g->per * config->shape[0];
    graft_status st = check_conditioning(config, config->positive, "positive", e);
    if (!st) st = check_conditioning(config, config->negative, "negative", e);
    if (!st) st = check_third(config, e);
    if (!st && graft_model_is_flow(config->model) && config->model->rescale_cfg > 0)
        st = graft_fail(e, GRAFT_E_UNSUPPORTED, "RescaleCFG is not defined for flows");
    if (!st) st = graft_model_check_downscale(config->model, config->positive, config->negative, e);
    for (int side = 0; side < GRAFT_SIDES && !st; side++)
        st = graft_unclip_check(config->model, graft_guided_list(config, side), e);
    if (!st) st = graft_known_create(&g->c, &g->known, e);
    if (!st) st = allocate(g, e);
    if (!st) st = make_features(g, e);
    if (!st) st = make_hooked(g, e);
    if (!st)
        st = graft_regions_create(config->positive, config->negative, config->third.prompt,
                                  config->shape, graft_net_patch(&config->model->arch),
                                  config->task, &g->regions, e);
    if (!st) st = graft_controls_create(&g->c, &g->regions, &g->controls, e);
    if (!st) st = graft_attending_create(&g->c, &g->attending, e);
    if (!st) st = graft_boxed_create(&g->c, &g->boxed, e);
    if (!st)
        st = graft_blurred_check(config->model, config->shape,
                                 g->regions.list + config->positive->n, config->negative->n, e);
    if (!st) st = graft_blurred_create(&g->c, &g->blurred, e);
    if (!st) st = graft_answers_create(&g->c, &g->answers, e);
    if (!st) st = graft_cfg_changes_create(&g->c, &g->changes, e);
    if (st)
        graft_guided_destroy(g);
    else
        *out = g;
    return st;
}

void graft_guided_destroy(graft_guided *g)
{
    if (!g) return;
    graft_series_finish(&g->series);
    for (size_t i = 0; i < g->n_bound; i++) graft_binding_release(g->bound[i].binding);
    graft_hooked_finish(&g->hooked);
    graft_free(g->kept_weights);
    graft_free(g->active);
    graft_free(g->x);
    graft_free(g->scaled);
    for (int side = 0; side < GRAFT_SIDES; side++) graft_free(g->sum[side]);
    graft_free(g->perturbed);
    if (g->batch_latent != g->batch_x) graft_free(g->batch_latent);
    graft_free(g->batch_x);
    graft_known_finish(&g->known);
    graft_free(g->batch_out);
    graft_free(g->timesteps);
    graft_free(g->context);
    graft_free(g->y);
    graft_features_destroy(g->features);
    graft_controls_destroy(g->controls);
    graft_attending_finish(&g->attending);
    graft_boxed_finish(&g->boxed);
    graft_blurred_destroy(g->blurred);
    graft_answers_destroy(g->answers);
    graft_cfg_changes_destroy(g->changes);
    graft_regions_finish(&g->regions);
    graft_free(g->feature);
    graft_free(g);
}

bool graft_guided_apart(const graft_guided *g)
{
    return g->regions.any || g->c.third.prompt || g->changes || g->answers;
}

void graft_guided_step(graft_guided *g, size_t step)
{
    g->step = step;
    if (g->features) graft_features_step(g->features, step);
}

void graft_guided_tell(const graft_guided *g)
{
    if (g->answers) graft_answers_tell(g->answers);
}
