#include "engine/denoise/denoise.h"

#include <math.h>
#include <string.h>

#include "base/clock.h"
#include "engine/denoise/bound.h"
#include "engine/denoise/guided_call.h"
#include "engine/denoise/masked.h"
#include "engine/denoise/third.h"
#include "engine/denoise/told.h"
#include "engine/task.h"

/* ------------------------------------------------------------------ the UNet */

/* x of entry i of a batch. */
static void fill_x(graft_guided *g, const active *a, size_t i)
{
    float *latent = g->batch_latent + i * graft_guided_values(g, a->box);
    graft_regions_cut(&g->regions, a->slot, g->scaled, latent);
    if (!g->known.joins) return;
    size_t n = (size_t)(g->c.shape[0] * graft_known_x_values(&g->known, &g->c, a->slot, a->box));
    graft_known_join(&g->known, &g->c, a->slot, a->box, latent, g->batch_x + i * n);
}

static void fill_batch(graft_guided *g, const size_t *which, size_t count, float timestep)
{
    const graft_cond_entry *first = g->active[which[0]].entry;
    const int64_t pictures = g->c.shape[0];
    const int64_t told = graft_net_y_width(&g->c.model->arch, first->tokens);
    size_t row = (size_t)(first->tokens * first->width);
    for (size_t i = 0; i < count; i++) {
        const graft_cond_entry *k = g->active[which[i]].entry;
        fill_x(g, &g->active[which[i]], i);
        for (int64_t p = 0; p < pictures; p++) {
            size_t at = i * (size_t)pictures + (size_t)p;
            g->timesteps[at] = timestep;
            memcpy(g->context + at * row, k->data, row * sizeof(float));
            if (told) graft_guided_fill_y(g, k, g->active[which[i]].side, g->y + at * (size_t)told);
        }
    }
}

static graft_status tell(const graft_guided *g, const size_t *which, size_t count,
                         graft_variant variant, const void *const *in, double start, graft_err *e)
{
    bool negative[GROUP_MAX];
    const active *first = &g->active[which[0]];
    const graft_net_arch *a = &g->c.model->arch;
    if (!g->c.tap || g->again) return GRAFT_OK;
    for (size_t i = 0; i < count; i++) negative[i] = g->active[which[i]].side != GRAFT_POSITIVE;
    const graft_guided_call call = {.variant = variant,
                                    .in = in,
                                    .pictures = g->c.shape[0],
                                    .height = graft_net_stacked(a, first->box->height, g->c.layers),
                                    .width = graft_net_side(a, first->box->width),
                                    .tokens = first->entry->tokens,
                                    .references = &first->references,
                                    .entries = count,
                                    .negative = negative,
                                    .seconds = graft_clock_now() - start};
    return g->c.tap->call(g->c.tap->ctx, &call, e);
}

/* How many entries of a batch are computed a second time, perturbed: the first ones, whose second
 * results are behind all others. */
static size_t perturbed_entries(const graft_guided *g, const size_t *which, size_t count)
{
    return graft_guided_perturbed(g) ? graft_active_positive(g->active, which, count) : 0;
}

/* DeepCache's place for what an entry's perturbed rows leave. */
static size_t perturbed_slot(const graft_guided *g, const active *a)
{
    return graft_guided_slots(&g->c) + a->slot;
}

/* What fast steps reuse of the entries' last whole step, for a batch of them. */
static void restore(graft_guided *g, const size_t *which, size_t count)
{
    size_t bytes = graft_guided_feature_bytes(g, g->active[which[0]].box);
    size_t again = perturbed_entries(g, which, count);
    for (size_t i = 0; i < count; i++) {
        const active *a = &g->active[which[i]];
        memcpy(g->feature + i * bytes, graft_features_get(g->features, a->slot), bytes);
        if (i < again)
            memcpy(g->feature + (count + i) * bytes,
                   graft_features_get(g->features, perturbed_slot(g, a)), bytes);
    }
}

static graft_status keep(graft_guided *g, const size_t *which, size_t count, float sigma,
                         graft_err *e)
{
    size_t bytes = graft_guided_feature_bytes(g, g->active[which[0]].box);
    size_t again = perturbed_entries(g, which, count);
    graft_status st = GRAFT_OK;
    for (size_t i = 0; i < count && !st; i++) {
        const active *a = &g->active[which[i]];
        st = graft_features_store(g->features, a->slot, g->feature_dtype, g->feature + i * bytes,
                                  bytes, e);
        if (!st && i < again)
            st = graft_features_store(g->features, perturbed_slot(g, a), g->feature_dtype,
                                      g->feature + (count + i) * bytes, bytes, e);
    }
    return st ? st : graft_guided_keep(g, which, count, sigma, e);
}

/* One prompt's prediction joins those of its kind. */
static void add(graft_guided *g, const active *a, const float *out, float *sum)
{
    if (g->regions.any)
        graft_regions_add(&g->regions, a->slot, out, sum);
    else
        for (int64_t k = 0; k < g->n; k++) sum[k] += out[k];
}

static void add_all(graft_guided *g, const size_t *which, size_t count)
{
    size_t again = perturbed_entries(g, which, count);
    graft_known_cut(&g->c, g->active[which[0]].box,
                    (int64_t)(count + again) * g->c.shape[0] * g->c.shape[1], g->batch_out);
    for (size_t i = 0; i < count; i++) {
        const active *a = &g->active[which[i]];
        size_t n = graft_guided_values(g, a->box);
        add(g, a, g->batch_out + i * n, g->sum[a->side]);
        if (i < again) add(g, a, g->batch_out + (count + i) * n, graft_guided_perturbed(g));
        if (g->regions.any) graft_regions_count(&g->regions, a->slot, a->side);
    }
}

/* Of a network that is looked at, which has no feature to give. */
static graft_status watched_outputs(graft_guided *g, const graft_unet_use *use, void *out[3],
                                    graft_err *e)
{
    float *to[2];
    graft_status st = graft_blurred_room(g->blurred, use, to, e);
    if (st) return st;
    out[1] = to[0];
    out[2] = to[1];
    return GRAFT_OK;
}

/* Runs the active entries `which`, which one graft_guided_group() gave, as one batch. */
static graft_status run_group(graft_guided *g, const size_t *which, size_t count, float sigma,
                              float timestep, graft_err *e)
{
    const active *first = &g->active[which[0]];
    const graft_unet_use use = graft_guided_use(g, which, count);
    const void *in[GRAFT_GUIDED_INPUTS] = {g->batch_x, g->timesteps, g->context};
    size_t n = 3;
    graft_binding *b;
    fill_batch(g, which, count, timestep);
    if (graft_net_y_width(&g->c.model->arch, use.tokens)) in[n++] = g->y;
    if (first->fast) restore(g, which, count);
    /* ControlNets see the latent alone. */
    const void *const alone[] = {g->batch_latent, in[1], in[2], in[3]};
    graft_status st = graft_guided_steer(g, which, count, &use, sigma, alone, e);
    if (!st) st = graft_guided_bind(g, first, &use, &b, e);
    if (st) return st;
    if (first->fast) in[n++] = g->feature;
    st = graft_guided_append(g, which, count, &use, in, &n, e);
    if (g->c.model->hyper.net) in[n++] = &g->c.model->hyper.strength;
    in[n++] = graft_model_freeu_factors(g->c.model, use.variant); /* not looked at where NULL */
    void *out[3] = {g->batch_out, g->feature};
    if (!st && use.watched) st = watched_outputs(g, &use, out, e);
    if (st) return st;
    double start = graft_clock_now();
    graft_invariants *series = graft_series_get(&g->series, g->c.model, b, g->active, which, count);
    st = graft_exe_run_again(b, g->c.model->engine->arenas, series, in, out, g->c.task, e);
    if (!st && use.watched) graft_blurred_look(g->blurred);
    if (!st) st = tell(g, which, count, use.variant, in, start, e);
    if (st) return st;
    add_all(g, which, count);
    return use.variant == GRAFT_STORE ? keep(g, which, count, sigma, e) : GRAFT_OK;
}

/* ------------------------------------------------------------------ guidance */

/* Runs every active entry, in batches. */
static graft_status run_all(graft_guided *g, float sigma, float timestep, graft_err *e)
{
    size_t which[GROUP_MAX], count;
    graft_status st = GRAFT_OK;
    while (!st && (count = graft_guided_group(g, which)))
        st = run_group(g, which, count, sigma, timestep, e);
    return st;
}

static double spread(const float *v, int64_t n)
{
    double first[GRAFT_RESCALE_LANES] = {0}, second[GRAFT_RESCALE_LANES] = {0};
    double mean = 0, var = 0;
    for (int64_t i = 0; i < n; i++) first[i % GRAFT_RESCALE_LANES] += v[i];
    for (int i = 0; i < GRAFT_RESCALE_LANES; i++) mean += first[i];
    mean /= (double)n;
    for (int64_t i = 0; i < n; i++)
        second[i % GRAFT_RESCALE_LANES] += (v[i] - mean) * (v[i] - mean);
    for (int i = 0; i < GRAFT_RESCALE_LANES; i++) var += second[i];
    return sqrt(var / (double)(n - 1));
}

/* Guidance rescale in v space: the guided prediction gets the conditional one's spread, for each
 * picture. pos and neg: D. */
static void rescale(const graft_guided *g, float sigma, const float *x, const float *pos,
                    const float *neg, float *out)
{
    float s2 = sigma * sigma + 1.0f, k = sqrtf(s2) / sigma;
    float cfg = (float)g->c.cfg, mix = (float)g->c.model->rescale_cfg;
    for (int64_t p = 0; p < g->c.shape[0]; p++) {
        int64_t at = p * g->per;
        float *guided = g->batch_x, *v_pos = g->batch_out; /* both free between runs */
        for (int64_t i = 0; i < g->per; i++) {
            float a = graft_rescale_velocity(x[at + i], s2, k, pos[at + i]);
            float b = graft_rescale_velocity(x[at + i], s2, k, neg[at + i]);
            v_pos[i] = a;
            guided[i] = graft_guidance_combined(b, a, cfg);
        }
        double ratio = spread(v_pos, g->per) / spread(guided, g->per);
        for (int64_t i = 0; i < g->per; i++)
            out[at + i] = graft_rescale_denoised(x[at + i], s2, k, guided[i], ratio, mix);
    }
}

/* From the sum of n prompts' predictions, weighted where they have areas, to their mean. Where
 * nothing has any weight it does not count: what went in, in which EasyCache sees no change. With
 * no prompt at all the sum stays 0, and so does the denoised latent. */
static void average(const graft_guided *g, graft_side side, size_t n, float *sum)
{
    const float *total = g->regions.total[side];
    int64_t area = g->c.shape[2] * g->c.shape[3];
    for (int64_t i = 0; g->regions.any && n && i < g->n; i++) {
        float weight = total[i / g->per * area + i % area];
        sum[i] = weight > 0 ? sum[i] / weight : g->scaled[i];
    }
    for (int64_t i = 0; !g->regions.any && n && i < g->n; i++) sum[i] /= (float)n;
}

/* From there to the denoised latent: 0 where nothing has any weight. */
static void mean_denoised(const graft_guided *g, graft_side side, const graft_guidance_terms *terms,
                          size_t n, float *mean)
{
    const float *total = g->regions.total[side];
    int64_t area = g->c.shape[2] * g->c.shape[3];
    for (int64_t i = 0; n && i < g->n; i++) {
        bool counts = !g->regions.any || total[i / g->per * area + i % area] > 0;
        mean[i] = counts ? graft_guidance_denoised(terms, g->x[i], mean[i]) : 0.0f;
    }
}

/* The active prompts of a side. */
static size_t active_of(const graft_guided *g, graft_side side)
{
    size_t n = 0;
    for (size_t i = 0; i < g->n_active; i++) n += g->active[i].side == side;
    return n;
}

/* The prompts' mean predictions: of the UNet, or what EasyCache makes of earlier ones. */
static graft_status predict(graft_guided *g, float sigma, graft_err *e)
{
    size_t bytes = (size_t)g->n * sizeof(float);
    size_t n_pos = active_of(g, GRAFT_POSITIVE);
    float *perturbed = graft_guided_perturbed(g);
    const graft_answer answer = {g->scaled, g->sum[0],
                                 active_of(g, GRAFT_NEGATIVE) ? g->sum[1] : NULL,
                                 active_of(g, GRAFT_THIRD) ? g->sum[2] : NULL, perturbed};
    graft_guided_settle(g, g->scaled);
    for (int side = 0; side < GRAFT_SIDES; side++)
        if (g->sum[side]) memset(g->sum[side], 0, bytes);
    if (perturbed) memset(perturbed, 0, bytes);
    bool may = !g->features || graft_features_spare(g->features);
    graft_status st = GRAFT_OK;
    bool made = false;
    if (g->answers)
        st = graft_answers_made(g->answers, g->active, g->n_active, sigma, may, &answer, &made, e);
    if (!st && made && graft_task_cancelled(g->c.task))
        st = graft_fail(e, GRAFT_E_CANCEL, "cancelled");
    if (st || made) return st;
    graft_regions_clear(&g->regions);
    if (g->blurred) graft_blurred_begin(g->blurred);
    st = run_all(g, sigma, graft_sigma_to_timestep(g->c.table, sigma), e);
    if (st) return st;
    for (int side = 0; side < GRAFT_SIDES; side++)
        average(g, side, active_of(g, side), g->sum[side]);
    if (perturbed) average(g, GRAFT_POSITIVE, n_pos, perturbed);
    if (!g->answers) return GRAFT_OK;
    return graft_answers_keep(g->answers, g->active, g->n_active, sigma, &answer, e);
}

/* The guided prediction of the positive and negative ones. */
static void guide(const graft_guided *g, float sigma, float *out)
{
    const bool any_positive = active_of(g, GRAFT_POSITIVE) > 0;
    const bool any_negative = active_of(g, GRAFT_NEGATIVE) > 0;
    float *pos = g->sum[0], *neg = g->sum[1], cfg = (float)g->c.cfg;
    const graft_cfg_call call = {sigma, g->x, pos, any_negative ? neg : NULL};
    if (g->changes) (void)graft_cfg_changes_before(g->changes, &call);
    if (any_negative && any_positive && g->c.model->rescale_cfg > 0)
        rescale(g, sigma, g->x, pos, neg, out);
    else if (any_negative || g->c.cfg != 1.0)
        for (int64_t i = 0; i < g->n; i++) out[i] = graft_guidance_combined(neg[i], pos[i], cfg);
    else
        memcpy(out, pos, (size_t)g->n * sizeof *out);
    if (g->changes) (void)graft_cfg_changes_after(g->changes, &call, out);
}

/* After skipped blocks: the guided prediction comes closer to the spread of the positive one. */
static void settle_spread(const graft_guided *g, const float *pos, float *out)
{
    const double mix = g->c.model->skip.rescale;
    for (int64_t at = 0; at < g->n; at += g->per) {
        const double all = spread(out + at, g->per);
        const float factor =
            all > 0 ? (float)(1 + mix * (spread(pos + at, g->per) / all - 1)) : 1.0f;
        for (int64_t i = 0; i < g->per; i++) out[at + i] *= factor;
    }
}

static void combine(graft_guided *g, float sigma, float *out)
{
    const graft_guidance_terms terms = graft_guided_terms(g, sigma);
    float *pos = g->sum[0], *perturbed = graft_guided_perturbed(g);
    for (int side = 0; side < GRAFT_SIDES; side++)
        mean_denoised(g, side, &terms, active_of(g, side), g->sum[side]);
    if (perturbed)
        mean_denoised(g, GRAFT_POSITIVE, &terms, active_of(g, GRAFT_POSITIVE), perturbed);
    if (g->blurred && active_of(g, GRAFT_NEGATIVE)) /* before a change of guidance changes it */
        memcpy(graft_blurred_arrays(g->blurred)->x0, g->sum[1], (size_t)g->n * sizeof *out);
    /* The difference is that of the prompts alone, whatever becomes of their prediction. */
    for (int64_t i = 0; perturbed && i < g->n; i++) perturbed[i] = pos[i] - perturbed[i];
    if (g->c.third.prompt) /* has no rescaling and no changes */
        graft_third_guide(&g->c.third, g->c.cfg, g->sum, (size_t)g->n, (size_t)g->per, out);
    else
        guide(g, sigma, out);
    for (int64_t i = 0; perturbed && i < g->n; i++)
        out[i] += (float)g->c.model->perturbed * perturbed[i];
    if (perturbed && g->c.model->skip.rescale > 0) settle_spread(g, pos, out);
}

/* The negative prompts' prediction D of the state in w->x, into w->again. */
static graft_status predict_again(graft_guided *g, float sigma, graft_blurred_work *w, graft_err *e)
{
    const float scale = graft_guided_scale(g, sigma);
    const graft_guidance_terms terms = graft_guided_terms(g, sigma);
    float *const x = g->x, *const sum = g->sum[GRAFT_NEGATIVE];
    for (int64_t i = 0; i < g->n; i++) g->scaled[i] = w->x[i] * scale;
    memset(w->again, 0, (size_t)g->n * sizeof *w->again);
    graft_regions_clear(&g->regions);
    g->n_active = graft_active_keep_negative(g->active, g->n_active);
    g->x = w->x;
    g->sum[GRAFT_NEGATIVE] = w->again;
    g->perturbs = false;
    g->again = true;
    graft_status st = run_all(g, sigma, graft_sigma_to_timestep(g->c.table, sigma), e);
    if (!st) {
        average(g, GRAFT_NEGATIVE, g->n_active, w->again);
        mean_denoised(g, GRAFT_NEGATIVE, &terms, g->n_active, w->again);
    }
    g->again = false;
    g->sum[GRAFT_NEGATIVE] = sum;
    g->x = x;
    return st;
}

/* Self-attention guidance of the guided prediction (blurred.h). The active entries are the negative
 * ones then. */
static graft_status guide_by_itself(graft_guided *g, float sigma, float *out, graft_err *e)
{
    graft_blurred_work *w = graft_blurred_arrays(g->blurred);
    const float scale = (float)g->c.model->self.scale;
    if (!active_of(g, GRAFT_NEGATIVE) || !graft_blurred_degrade(g->blurred, w->x0, w->degraded))
        return GRAFT_OK;
    for (int64_t i = 0; i < g->n; i++) w->x[i] = w->degraded[i] + (g->x[i] - w->x0[i]);
    graft_status st = predict_again(g, sigma, w, e);
    if (st) return st;
    for (int64_t i = 0; i < g->n; i++) out[i] += scale * (w->degraded[i] - w->again[i]);
    return GRAFT_OK;
}

/* unconditional: NULL, or where the prediction without the prompt goes. */
static graft_status denoise_any(graft_guided *g, const float *x, float sigma, float *out,
                                float *unconditional, graft_err *e)
{
    memcpy(g->x, x, (size_t)g->n * sizeof *x);
    const float threshold = graft_masked_threshold(&g->c, sigma);
    if (g->c.mask) graft_masked_input(&g->c, sigma, threshold, g->x);
    float scale = graft_guided_scale(g, sigma);
    for (int64_t i = 0; i < g->n; i++) g->scaled[i] = g->x[i] * scale;
    graft_guided_collect(g, sigma, unconditional != NULL);
    graft_status st = predict(g, sigma, e);
    if (st) return st;
    combine(g, sigma, out);
    if (g->blurred) st = guide_by_itself(g, sigma, out, e);
    if (st) return st;
    if (unconditional) memcpy(unconditional, g->sum[1], (size_t)g->n * sizeof *x);
    if (g->c.mask) graft_masked_output(&g->c, threshold, out);
    return GRAFT_OK;
}

static graft_status denoise(void *ctx, const float *x, float sigma, float *out, graft_err *e)
{
    return denoise_any(ctx, x, sigma, out, NULL, e);
}

static graft_status denoise_pair(void *ctx, const float *x, float sigma, float *out,
                                 float *unconditional, graft_err *e)
{
    return denoise_any(ctx, x, sigma, out, unconditional, e);
}

graft_denoiser graft_guided_denoiser(graft_guided *g)
{
    return (graft_denoiser){g, denoise, denoise_pair};
}

void graft_guided_start(const graft_guided_config *c, float sigma, const float *latent,
                        float *noise)
{
    float top = c->table->sigma[c->table->count - 1];
    bool most = sigma > top || fabsf(sigma - top) <= 1e-5f * top;
    float scale = most ? sqrtf(1.0f + sigma * sigma) : sigma;
    int64_t n = c->shape[0] * c->shape[1] * c->shape[2] * c->shape[3];
    if (graft_model_is_flow(c->model)) {
        for (int64_t i = 0; i < n; i++) noise[i] = sigma * noise[i] + (1.0f - sigma) * latent[i];
        return;
    }
    for (int64_t i = 0; i < n; i++) noise[i] = noise[i] * scale + latent[i];
}
