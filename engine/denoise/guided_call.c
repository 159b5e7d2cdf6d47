#include "engine/denoise/guided_call.h"

#include <math.h>

#include "engine/denoise/bound.h"
#include "engine/objects/sight.h"

/* Whether what steered an entry's last whole step does so now. */
static bool is_alike(const graft_guided *g, size_t slot, graft_hash weights, float sigma)
{
    const uint32_t *kept = g->attending.kept;
    return graft_controls_alike(g->controls, slot, sigma) && (!kept || kept[slot] == g->sees) &&
           (!g->kept_weights || graft_hash_equal(g->kept_weights[slot], weights));
}

static void collect_one(graft_guided *g, const graft_cond_entry *k, graft_side side, size_t slot)
{
    const float sigma = g->sigma;
    const graft_hash weights =
        g->hooks ? graft_hooked_key(g->c.table, k, sigma) : (graft_hash){0, 0};
    g->active[g->n_active++] = (active){
        .entry = k,
        .box = &g->regions.list[slot].box,
        .side = side,
        .slot = slot,
        .known = graft_known_source(g->c.model, k),
        .references = graft_known_references(g->c.model, k, g->c.layers),
        .untold = graft_untold(g->c.model, k),
        .skips = side == GRAFT_NEGATIVE && graft_model_skips_at(g->c.model, g->c.table, sigma),
        .weights = weights,
        .control = graft_controls_active(g->controls, slot, sigma),
        .steered = graft_controls_steered(g->controls, slot, sigma),
        .within = g->c.model->within != NULL,
        .alike = is_alike(g, slot, weights, sigma)};
}

/* first: the side's first slot. Returns that of the next side. Prompts for what others leave come
 * when these are known. */
static size_t collect(graft_guided *g, graft_side side, size_t first, float sigma)
{
    const graft_cond *list = graft_guided_list(&g->c, side);
    graft_regions_leave_all(&g->regions);
    for (int rest = 0; rest <= g->regions.rest; rest++)
        for (size_t i = 0; i < list->n; i++) {
            const graft_cond_entry *k = list->entry[i];
            if (k->rest != rest || !graft_active_now(g->c.table, k, sigma)) continue;
            if (graft_regions_begin(&g->regions, first + i)) collect_one(g, k, side, first + i);
        }
    return first + list->n;
}

/* Whether boxes count in this call, which for DeepCache must be as in the last whole step. */
static void settle_boxes(graft_guided *g)
{
    graft_boxed_settle(g->boxed.gligen, g->active, g->n_active);
    for (size_t i = 0; i < g->n_active; i++) {
        active *a = &g->active[i];
        a->alike = a->alike && g->boxed.kept[a->slot] == (a->boxed != NULL);
    }
}

void graft_guided_collect(graft_guided *g, float sigma, bool both)
{
    g->n_active = 0;
    g->sigma = sigma;
    if (g->c.positive != g->c.negative)
        g->c.cfg = graft_model_cfg_at(g->c.model, g->c.table, sigma, g->cfg);
    g->shrinks = graft_model_shrinks(g->c.model, g->c.table, sigma);
    g->perturbs = graft_model_perturbs_at(g->c.model, g->c.table, sigma);
    g->sees = graft_model_sees_at(g->c.model, g->c.table, sigma);
    size_t next = collect(g, GRAFT_POSITIVE, 0, sigma);
    bool third = g->c.third.prompt != NULL;
    /* Guidance of 1 is the conditional prediction alone: half the work. */
    if (both || third || g->blurred || fabs(g->c.cfg - 1.0) > 1e-9)
        next = collect(g, GRAFT_NEGATIVE, next, sigma);
    if (third) collect(g, GRAFT_THIRD, next, sigma);
    if (g->boxed.gligen) settle_boxes(g);
    if (g->hooks) graft_bound_forget(g);
}

void graft_guided_settle(graft_guided *g, const float *scaled)
{
    if (g->features) graft_features_call(g->features, scaled);
    for (size_t i = 0; i < g->n_active; i++) {
        active *a = &g->active[i];
        a->fast = g->features && a->alike && graft_features_fast(g->features, a->slot);
        if (a->fast) a->control = graft_controls_kept(g->controls, a->slot);
    }
}

size_t graft_guided_group(graft_guided *g, size_t *which)
{
    return graft_active_group(g->active, g->n_active, which);
}

graft_variant graft_guided_variant(const graft_guided *g, bool fast)
{
    return fast ? GRAFT_FAST : g->features ? GRAFT_STORE : GRAFT_WHOLE;
}

graft_unet_use graft_guided_use(const graft_guided *g, const size_t *which, size_t count)
{
    const graft_active_more more = {graft_guided_perturbed(g) != NULL, g->blurred && !g->again};
    graft_unet_use use = graft_active_use(g->active, which, count, g->c.shape[0], more);
    use.variant = graft_guided_variant(g, g->active[which[0]].fast);
    use.attends = g->c.model->n_seen > 0;
    use.shrink = g->shrinks;
    if (use.shrink) return use;
    use.turn = graft_hypertile_turn(g->step, graft_model_turns(g->c.model, use.height, use.width));
    return use;
}

size_t graft_guided_values(const graft_guided *g, const graft_box *b)
{
    return (size_t)(g->c.shape[0] * g->c.shape[1] * b->height * b->width);
}

size_t graft_guided_feature_bytes(const graft_guided *g, const graft_box *b)
{
    const graft_net_shape shape = {.batch = g->c.shape[0],
                                   .height = b->height,
                                   .width = b->width,
                                   .act_dtype = g->feature_dtype,
                                   .variant = GRAFT_STORE,
                                   .cut = g->c.model->deepcache.cut};
    int64_t dim[4];
    graft_unet_feature_shape(&g->c.model->arch.unet, &shape, dim);
    return (size_t)(dim[0] * dim[1] * dim[2] * dim[3]) * graft_dtype_size(g->feature_dtype);
}

/* Its hints and residuals. */
static graft_status run_controls(graft_guided *g, const active *first, const graft_unet_use *use,
                                 float sigma, const void *const *in, graft_err *e)
{
    graft_status st = use->within ? graft_controls_see(g->controls, first->box, use, e) : GRAFT_OK;
    if (st || !first->control || first->fast) return st;
    return graft_controls_run(g->controls, first->control, sigma, first->box, use, in, e);
}

graft_status graft_guided_steer(graft_guided *g, const size_t *which, size_t count,
                                const graft_unet_use *use, float sigma, const void *const *in,
                                graft_err *e)
{
    const active *first = &g->active[which[0]];
    graft_status st = GRAFT_OK;
    if (!first->control && !use->within) return GRAFT_OK;
    for (size_t i = 0; i < count && first->control && first->fast && !st; i++)
        st = graft_controls_restore(g->controls, g->active[which[i]].slot, i, e);
    if (!st && use->adapted)
        st = graft_controls_adapt(g->controls, first->control, sigma, first->box, use,
                                  graft_bound_bytes(g), e);
    if (st) return st;
    st = run_controls(g, first, use, sigma, in, e);
    /* A ControlNet that begins late finds that the network has all memory. */
    if (!graft_bound_short_of_memory(st) || !g->n_bound) return st;
    graft_bound_let_go(g);
    return run_controls(g, first, use, sigma, in, e);
}

graft_status graft_guided_append(graft_guided *g, const size_t *which, size_t count,
                                 const graft_unet_use *use, const void **in, size_t *n,
                                 graft_err *e)
{
    const void *masks = NULL;
    graft_status st = GRAFT_OK;
    if (g->active[which[0]].control) graft_controls_append(g->controls, use, in, n);
    if (use->within) graft_controls_append_within(g->controls, g->active[which[0]].box, use, in, n);
    if (use->attends) {
        graft_attending *a = &g->attending;
        const int64_t pictures = g->c.shape[0];
        st = graft_attending_fill(a, g->sees, g->active, which, count, pictures, &in[*n], e);
        ++*n;
        if (!st) st = graft_attending_masks(a, use, g->active, which, count, pictures, &masks, e);
    }
    if (masks) in[(*n)++] = masks;
    if (!st && use->boxed)
        st = graft_boxed_fill(&g->boxed, g->active, which, count, g->c.shape[0], &in[(*n)++], e);
    return st;
}

graft_status graft_guided_keep(graft_guided *g, const size_t *which, size_t count, float sigma,
                               graft_err *e)
{
    graft_status st = GRAFT_OK;
    for (size_t i = 0; i < count && !st; i++) {
        const active *a = &g->active[which[i]];
        if (g->controls) st = graft_controls_keep(g->controls, a->slot, a->control, sigma, i, e);
        if (g->attending.kept) g->attending.kept[a->slot] = g->sees;
        if (g->boxed.kept) g->boxed.kept[a->slot] = a->boxed != NULL;
        if (g->kept_weights) g->kept_weights[a->slot] = a->weights;
    }
    return st;
}

float graft_guided_scale(const graft_guided *g, float sigma)
{
    const graft_model *m = g->c.model;
    const float data = m->prediction == GRAFT_PREDICT_EDM ? (float)m->continuous.data : 1.0f;
    return graft_model_is_flow(m) ? 1.0f : 1.0f / sqrtf(sigma * sigma + data * data);
}

graft_guidance_terms graft_guided_terms(const graft_guided *g, float sigma)
{
    /* A flow's D = x - sigma v has the form of eps'. */
    static const int32_t kinds[] = {
        [GRAFT_PREDICT_FLOW] = GRAFT_GUIDE_EPS, [GRAFT_PREDICT_EDM] = GRAFT_GUIDE_V,
        [GRAFT_PREDICT_EPS] = GRAFT_GUIDE_EPS,  [GRAFT_PREDICT_V] = GRAFT_GUIDE_V,
        [GRAFT_PREDICT_X0] = GRAFT_GUIDE_X0,    [GRAFT_PREDICT_LCM] = GRAFT_GUIDE_LCM};
    float t = graft_sigma_to_timestep(g->c.table, sigma) * 10.0f, d2 = 0.25f;
    float s2 = sigma * sigma + 1.0f; /* LCM: timestep scaling 10, sigma_data 0.5 */
    float root = sqrtf(s2);
    if (g->c.model->prediction == GRAFT_PREDICT_EDM) {
        /* D = x / s2 - sigma F / root, too: EDM's c_skip is 1 / s2, its c_out sigma / -root. */
        const float data = (float)g->c.model->continuous.data;
        s2 = (sigma * sigma + data * data) / (data * data);
        root = -sqrtf(s2);
    }
    return (graft_guidance_terms){.kind = kinds[g->c.model->prediction],
                                  .sigma = sigma,
                                  .s2 = s2,
                                  .root = root,
                                  .c_skip = d2 / (t * t + d2),
                                  .c_out = t / sqrtf(t * t + d2)};
}
