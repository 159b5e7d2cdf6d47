#include "engine/denoise/denoise.h"

#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/size.h"
#include "engine/denoise/bound.h"
#include "engine/denoise/features.h"
#include "engine/denoise/guided.h"
#include "engine/denoise/masked.h"
#include "engine/denoise/third.h"
#include "engine/denoise/unclip.h"
#include "engine/objects/sight.h"
#include "engine/task.h"

/* ------------------------------------------------------------------ the UNet */

/* Where the call's perturbed predictions go; NULL: it has none. */
static float *perturbed_now(const graft_guided *g)
{
    return g->perturbs ? g->perturbed : NULL;
}

graft_unet_use graft_guided_use(const graft_guided *g, const size_t *which, size_t count)
{
    const graft_active_more more = {perturbed_now(g) != NULL, g->blurred && !g->again};
    graft_unet_use use = graft_active_use(g->active, which, count, g->c.shape[0], more);
    use.variant = graft_guided_variant(g, g->active[which[0]].fast);
    use.attends = g->c.model->n_seen > 0;
    use.shrink = g->shrinks;
    if (use.shrink) return use;
    use.turn = graft_hypertile_turn(g->step, graft_model_turns(g->c.model, use.height, use.width));
    return use;
}

void graft_guided_waves(double v, int64_t width, float *out)
{
    for (int64_t i = 0; i < width / 2; i++) {
        float f = expf((float)(-log(10000.0) * (double)i / (double)(width / 2)));
        out[i] = cosf((float)v * f);
        out[width / 2 + i] = sinf((float)v * f);
    }
}

/* What the refiner is told of prompts that do not say how beautiful the picture is to be:
 * diffusers' numbers. */
#define SCORE_POSITIVE 6.0
#define SCORE_NEGATIVE 2.5

/* The numbers behind the pooled text in y: none of a transformer's; SDXL's height, width, crop top
 * and left, then target height and width, or the refiner's score. Returns how many. */
static int size_numbers(const graft_guided *g, const graft_cond_entry *k, bool negative,
                        double out[6])
{
    int64_t h = g->c.shape[2] * 8, w = g->c.shape[3] * 8;
    const double plain[6] = {(double)h, (double)w, 0, 0, (double)h, (double)w};
    memcpy(out, plain, sizeof plain);
    if (k->has_size) {
        const graft_sdxl_size *s = &k->size;
        const double given[6] = {(double)s->height,        (double)s->width,
                                 (double)s->crop_h,        (double)s->crop_w,
                                 (double)s->target_height, (double)s->target_width};
        memcpy(out, given, sizeof given);
    }
    if (!graft_net_is_unet(&g->c.model->arch)) return 0;
    if (!graft_unet_is_refiner(&g->c.model->arch.unet)) return 6;
    out[4] = k->has_score ? k->score : negative ? SCORE_NEGATIVE : SCORE_POSITIVE;
    return 5;
}

/* Z-Image's y: which of a prompt's last tokens are none of its own. */
static void fill_marks(const graft_cond_entry *k, int64_t adm, float *y)
{
    for (int64_t i = 0; i < adm; i++) y[i] = adm - i <= k->filled ? 1.0f : 0.0f;
}

/* The pooled text, then the numbers, or FLUX's guidance as it is. An area's are those of the whole
 * picture: it is to show a part of that, and no cut-off objects. */
static void fill_told(const graft_guided *g, const graft_cond_entry *k, bool negative, float *y)
{
    double numbers[6];
    int count = size_numbers(g, k, negative, numbers);
    const graft_net_arch *a = &g->c.model->arch;
    if (a->kind == GRAFT_NET_ZIMAGE) {
        fill_marks(k, a->adm_channels, y);
        return;
    }
    if (a->unet.unclip) {
        graft_unclip_fill(g->c.model, k, g->c.seed, y);
        return;
    }
    const bool told = graft_net_told_guidance(a);
    int64_t adm = a->adm_channels, sizes = count ? count * 256 : told;
    int64_t pooled = adm > sizes ? adm - sizes : 0;
    memset(y, 0, (size_t)adm * sizeof *y);
    int64_t have = k->pooled ? k->pooled_width : 0;
    memcpy(y, k->pooled ? k->pooled : y, (size_t)(have < pooled ? have : pooled) * sizeof *y);
    int64_t each = count ? (adm - pooled) / count / 2 * 2 : 0;
    for (int i = 0; i < count; i++) graft_guided_waves(numbers[i], each, y + pooled + i * each);
    if (told) y[pooled] = (float)(k->has_guidance ? k->guidance : GRAFT_FLUX_GUIDANCE);
}

void graft_guided_fill_y(const graft_guided *g, const graft_cond_entry *k, bool negative, float *y)
{
    const graft_net_arch *a = &g->c.model->arch;
    if (a->adm_channels) fill_told(g, k, negative, y);
    if (graft_net_counts_tokens(a, k->tokens)) y[a->adm_channels] = (float)(k->tokens - k->filled);
}

size_t graft_guided_values(const graft_guided *g, const graft_box *b)
{
    return (size_t)(g->c.shape[0] * g->c.shape[1] * b->height * b->width);
}

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
                         graft_unet_variant variant, const void *const *in, double start,
                         graft_err *e)
{
    bool negative[GROUP_MAX];
    const active *first = &g->active[which[0]];
    const graft_net_arch *a = &g->c.model->arch;
    if (!g->c.tap || g->again) return GRAFT_OK;
    for (size_t i = 0; i < count; i++) negative[i] = g->active[which[i]].side != GRAFT_POSITIVE;
    const graft_guided_call call = {.variant = variant,
                                    .in = in,
                                    .pictures = g->c.shape[0],
                                    .height = graft_net_side(a, first->box->height),
                                    .width = graft_net_side(a, first->box->width),
                                    .tokens = first->entry->tokens,
                                    .references = &first->references,
                                    .entries = count,
                                    .negative = negative,
                                    .seconds = graft_clock_now() - start};
    return g->c.tap->call(g->c.tap->ctx, &call, e);
}

size_t graft_guided_feature_bytes(const graft_guided *g, const graft_box *b)
{
    const graft_unet_shape shape = {.batch = g->c.shape[0],
                                    .height = b->height,
                                    .width = b->width,
                                    .act_dtype = g->feature_dtype,
                                    .variant = GRAFT_UNET_STORE,
                                    .cut = g->c.model->deepcache.cut};
    int64_t dim[4];
    graft_unet_feature_shape(&g->c.model->arch.unet, &shape, dim);
    return (size_t)(dim[0] * dim[1] * dim[2] * dim[3]) * graft_dtype_size(g->feature_dtype);
}

/* How many entries of a batch are computed a second time, perturbed: the first ones, whose second
 * results are behind all others. */
static size_t perturbed_entries(const graft_guided *g, const size_t *which, size_t count)
{
    return perturbed_now(g) ? graft_active_positive(g->active, which, count) : 0;
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

graft_status graft_guided_keep(graft_guided *g, const size_t *which, size_t count, float sigma,
                               graft_err *e)
{
    graft_status st = GRAFT_OK;
    for (size_t i = 0; i < count && !st; i++) {
        const active *a = &g->active[which[i]];
        if (g->controls) st = graft_controls_keep(g->controls, a->slot, a->control, sigma, i, e);
        if (g->attending.kept) g->attending.kept[a->slot] = g->sees;
    }
    return st;
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
    graft_known_cut(g->c.model, g->active[which[0]].box,
                    (int64_t)(count + again) * g->c.shape[0] * g->c.shape[1], g->batch_out);
    for (size_t i = 0; i < count; i++) {
        const active *a = &g->active[which[i]];
        size_t n = graft_guided_values(g, a->box);
        add(g, a, g->batch_out + i * n, g->sum[a->side]);
        if (i < again) add(g, a, g->batch_out + (count + i) * n, perturbed_now(g));
        if (g->regions.any) graft_regions_count(&g->regions, a->slot, a->side);
    }
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
    return st;
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
    if (!st) st = graft_guided_bind(g, &use, &b, e);
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
    return use.variant == GRAFT_UNET_STORE ? keep(g, which, count, sigma, e) : GRAFT_OK;
}

/* ------------------------------------------------------------------ guidance */

/* first: the side's first slot. Returns that of the next side. */
static size_t collect(graft_guided *g, graft_side side, size_t first, float sigma)
{
    const graft_cond *list = graft_guided_list(&g->c, side);
    const uint32_t *kept = g->attending.kept;
    const bool skips =
        side == GRAFT_NEGATIVE && graft_model_skips_at(g->c.model, g->c.table, sigma);
    for (size_t i = 0; i < list->n; i++)
        if (graft_active_now(g->c.table, list->entry[i], sigma) && !g->regions.list[first + i].idle)
            g->active[g->n_active++] =
                (active){.entry = list->entry[i],
                         .box = &g->regions.list[first + i].box,
                         .side = side,
                         .slot = first + i,
                         .known = graft_known_source(g->c.model, list->entry[i]),
                         .references = graft_known_references(g->c.model, list->entry[i]),
                         .untold = graft_untold(g->c.model, list->entry[i]),
                         .skips = skips,
                         .control = graft_controls_active(g->controls, first + i, sigma),
                         .steered = graft_controls_steered(g->controls, first + i, sigma),
                         .within = g->c.model->within != NULL,
                         .alike = graft_controls_alike(g->controls, first + i, sigma) &&
                                  (!kept || kept[first + i] == g->sees)};
    return first + list->n;
}

void graft_guided_collect(graft_guided *g, float sigma, bool both)
{
    g->n_active = 0;
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
}

graft_unet_variant graft_guided_variant(const graft_guided *g, bool fast)
{
    return fast ? GRAFT_UNET_FAST : g->features ? GRAFT_UNET_STORE : GRAFT_UNET_WHOLE;
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

/* Runs every active entry, in batches. */
static graft_status run_all(graft_guided *g, float sigma, float timestep, graft_err *e)
{
    size_t which[GROUP_MAX], count;
    graft_status st = GRAFT_OK;
    while (!st && (count = graft_guided_group(g, which)))
        st = run_group(g, which, count, sigma, timestep, e);
    return st;
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
    float *perturbed = perturbed_now(g);
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
    float *pos = g->sum[0], *perturbed = perturbed_now(g);
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

float graft_guided_scale(const graft_guided *g, float sigma)
{
    const graft_model *m = g->c.model;
    const float data = m->prediction == GRAFT_PREDICT_EDM ? (float)m->continuous.data : 1.0f;
    return graft_model_is_flow(m) ? 1.0f : 1.0f / sqrtf(sigma * sigma + data * data);
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

void graft_guided_step(graft_guided *g, size_t step)
{
    g->step = step;
    if (g->features) graft_features_step(g->features, step);
}

void graft_guided_tell(const graft_guided *g)
{
    if (g->answers) graft_answers_tell(g->answers);
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
