/* Sampling: noise, sigmas, sampler and denoiser put together as ComfyUI does. */
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "engine/denoise/denoise.h"
#include "engine/denoise/flow_form.h"
#include "engine/denoise/opposites.h"
#include "engine/denoise/prepare.h"
#include "engine/denoise/previews.h"
#include "engine/denoise/resident.h"
#include "engine/denoise/sample.h"
#include "engine/denoise/two_models.h"
#include "engine/image/latent.h"
#include "engine/image/mask.h"

typedef struct run_state {
    const graft_sampling *s;
    graft_opposites sides; /* its prompts */
    graft_sigma_table table;
    const float *sigmas;
    size_t n_sigmas;
    float *noise, *start, *latent, *mask;
    float *denoised; /* of the last step; NULL: not wanted */
    bool stepped;
    graft_image *mask_image;
    int64_t shape[4], n, layers;
    graft_brownian *brownian;
    graft_rng rng;
    graft_noise_source source;
    graft_guided *guided;     /* NULL with two models */
    graft_two_models *two;    /* NULL with one */
    graft_flow_form *form;    /* NULL: the sampler takes states as they are */
    float *levels;            /* the sigmas in that form; NULL without */
    float *shown;             /* a state for those who look on; NULL where nobody does */
    graft_resident *resident; /* NULL: latents are in the host's memory */
    float *denoised_there;    /* `denoised` meanwhile, on the device */
    graft_previews previews;
    const graft_task *task;
    const graft_guided_tap *tap;
} run_state;

static void finish(run_state *r)
{
    graft_free(r->noise);
    graft_free(r->start);
    graft_free(r->latent);
    graft_free(r->mask);
    graft_free(r->denoised);
    graft_image_release(r->mask_image);
    graft_brownian_destroy(r->brownian);
    graft_flow_form_destroy(r->form);
    graft_resident_destroy(r->resident);
    graft_free(r->levels);
    graft_free(r->shown);
    graft_guided_destroy(r->guided);
    graft_two_models_destroy(r->two);
    graft_opposites_finish(&r->sides);
    graft_previews_end(&r->previews);
}

/* ------------------------------------------------------------------ latents and noise */

/* The latent in the UNet's space. */
static graft_status take_latent(run_state *r, const graft_latent *l, graft_err *e)
{
    const graft_model *m = r->s->model;
    graft_status st = graft_latent_shape_for(l, m->arch.latent_channels, r->shape, e);
    if (st) return st;
    r->layers = graft_latent_layers(l);
    r->n = r->shape[0] * r->shape[1] * r->shape[2] * r->shape[3];
    r->latent = graft_calloc((size_t)r->n, sizeof(float));
    r->noise = graft_calloc((size_t)r->n, sizeof(float));
    r->start = graft_malloc_array((size_t)r->n, sizeof(float));
    if (!r->latent || !r->noise || !r->start) return graft_fail_nomem(e, "latents");
    if (!graft_latent_is_empty(l))
        graft_model_scale_latent(m, graft_latent_data(l, NULL), (size_t)r->n,
                                 r->shape[2] * r->shape[3], r->latent);
    return GRAFT_OK;
}

/* Several layers are for networks that make them, and are seen whole. */
static graft_status check_layers(const run_state *r, graft_err *e)
{
    const graft_sampling *s = r->s;
    const graft_cond *lists[] = {s->positive, s->negative, s->third.prompt};
    if (r->layers == 1) return GRAFT_OK;
    if (!graft_net_makes_layers(&s->model->arch))
        return graft_fail(e, GRAFT_E_ARG,
                          "the latent has %lld layers, and this model makes single pictures",
                          (long long)r->layers);
    if (r->layers > GRAFT_LAYERS_MOST)
        return graft_fail(e, GRAFT_E_LIMIT, "%lld layers: there are at most %d",
                          (long long)r->layers, GRAFT_LAYERS_MOST);
    for (int i = 0; i < 3; i++)
        for (size_t k = 0; lists[i] && k < lists[i]->n; k++)
            if (lists[i]->entry[k]->has_area || lists[i]->entry[k]->mask)
                return graft_fail(e, GRAFT_E_UNSUPPORTED,
                                  "a prompt's area or mask is part of one picture, and the latent "
                                  "has %lld layers",
                                  (long long)r->layers);
    for (int i = 0; i < s->model->n_cfg_changes; i++)
        if (s->model->cfg_change[i].kind == GRAFT_CFG_OPERATED)
            return graft_fail(e, GRAFT_E_UNSUPPORTED,
                              "LatentApplyOperationCFG sees single pictures, and the latent has "
                              "%lld layers",
                              (long long)r->layers);
    return GRAFT_OK;
}

/* That of a picture is every layer's. */
static graft_status take_mask(run_state *r, const graft_latent *l, graft_err *e)
{
    const graft_image *mask = graft_latent_mask(l);
    if (!mask) return GRAFT_OK;
    int64_t shape[4];
    graft_status st = graft_image_resize_mask(mask, r->shape[2] / r->layers, r->shape[3],
                                              r->shape[0], &r->mask_image, e);
    if (st) return st;
    const float *data = graft_image_data(r->mask_image, shape);
    const size_t n = (size_t)(shape[1] * shape[2]);
    r->mask = graft_malloc_array((size_t)(shape[0] * r->layers), n * sizeof(float));
    if (!r->mask) return graft_fail_nomem(e, "mask");
    for (int64_t i = 0; i < shape[0] * r->layers; i++)
        memcpy(r->mask + (size_t)i * n, data + (size_t)(i / r->layers) * n, n * sizeof(float));
    return GRAFT_OK;
}

/* A flow's end at 1, but for rounding. */
static graft_status check_sigmas(const run_state *r, graft_err *e)
{
    for (size_t i = 0; i < r->n_sigmas && graft_model_is_flow(r->s->model); i++)
        if (!(r->sigmas[i] <= 1.001f))
            return graft_fail(e, GRAFT_E_ARG,
                              "a sigma of %g: this model is a flow, whose sigmas are at most 1; "
                              "BasicScheduler makes its own",
                              (double)r->sigmas[i]);
    return GRAFT_OK;
}

/* The sigmas as the sampler gets them. */
static const float *sampler_sigmas(const run_state *r)
{
    return r->levels ? r->levels : r->sigmas;
}

static graft_status make_levels(run_state *r, graft_err *e)
{
    const double eta = r->s->options.given ? r->s->options.eta : 0;
    if (!graft_flow_form_wanted(r->s->model, r->s->sampler, eta)) return GRAFT_OK;
    r->levels = graft_malloc_array(r->n_sigmas, sizeof *r->levels);
    if (!r->levels) return graft_fail_nomem(e, "sigmas");
    if (r->task && r->task->latent) {
        r->shown = graft_malloc_array((size_t)r->n, sizeof *r->shown);
        if (!r->shown) return graft_fail_nomem(e, "a latent");
    }
    for (size_t i = 0; i < r->n_sigmas; i++)
        r->levels[i] = graft_flow_form_level(&r->table, r->sigmas[i]);
    return GRAFT_OK;
}

/* SDE samplers follow one Brownian path; the others draw with the next seed, so that their noise is
 * not that of the start. */
static graft_status make_source(run_state *r, graft_err *e)
{
    if (!graft_sampler_is_sde(r->s->sampler)) {
        graft_rng_seed(&r->rng, r->s->seed + 1);
        r->source = graft_noise_plain(&r->rng);
        return GRAFT_OK;
    }
    const float *sigma = sampler_sigmas(r);
    float low = sigma[0], high = sigma[0];
    for (size_t i = 0; i < r->n_sigmas; i++) {
        if (sigma[i] > 0 && sigma[i] < low) low = sigma[i];
        if (sigma[i] > high) high = sigma[i];
    }
    graft_status st = graft_brownian_create(low, high, r->s->seed, (size_t)r->n, &r->brownian, e);
    if (!st) r->source = graft_brownian_source(r->brownian);
    return st;
}

/* ------------------------------------------------------------------ the run */

/* On the device: a step has come to its end there. */
static void step_arrived(void *ctx, size_t i, size_t total, const float *denoised)
{
    run_state *r = ctx;
    graft_task_progress(r->task, i + 1, total);
    if (denoised) graft_previews_show(&r->previews, denoised, i + 1 == total);
}

/* Any step may be the last one: some samplers take fewer than they count. */
static void keep_denoised(run_state *r, const float *denoised)
{
    if (!r->denoised || !denoised) return;
    r->stepped = true;
    if (r->resident) {
        const graft_arrays *a = graft_resident_arrays(r->resident);
        a->mix(a->ctx, r->denoised_there, (size_t)r->n, 1, (const double[]){1}, &denoised);
    } else {
        memcpy(r->denoised, denoised, (size_t)r->n * sizeof *denoised);
    }
}

/* The state after step i, as the model has it. */
static void show_state(const run_state *r, size_t i, const float *x)
{
    float level = r->levels && i + 1 < r->n_sigmas ? r->levels[i + 1] : 0.0f;
    for (int64_t k = 0; r->shown && k < r->n; k++) r->shown[k] = x[k] / (1.0f + level);
    r->task->latent(r->task->ctx, r->shown ? r->shown : x, r->shape);
}

static void step_done(void *ctx, size_t i, size_t total, const float *x, const float *denoised)
{
    run_state *r = ctx;
    const bool last = i + 1 == total;
    if (r->two)
        graft_two_models_step(r->two, i + 1);
    else
        graft_guided_step(r->guided, i + 1);
    keep_denoised(r, denoised);
    if (r->resident) {
        bool wanted = denoised && graft_previews_wanted(&r->previews, last);
        graft_resident_step(r->resident, i, total, denoised, wanted, step_arrived, ctx);
        return;
    }
    graft_task_progress(r->task, i + 1, total);
    if (r->task && r->task->latent) show_state(r, i, x);
    if (denoised && graft_previews_wanted(&r->previews, last))
        graft_previews_show(&r->previews, denoised, last);
}

static graft_status integrate_there(run_state *r, graft_sampler_run *run, graft_err *e)
{
    const graft_arrays *a = graft_resident_arrays(r->resident);
    run->arrays = a;
    if (r->denoised && !(r->denoised_there = a->alloc(a->ctx, (size_t)r->n)))
        return graft_fail_nomem(e, "the denoised latent on the device");
    graft_status st = graft_resident_begin(r->resident, r->start, &run->x, e);
    if (!st) st = graft_sampler_run_named(r->s->sampler, run, e);
    if (!st) graft_resident_last(r->resident, step_arrived, r);
    if (!st) st = graft_resident_end(r->resident, r->start, e);
    if (!st && r->stepped) { /* the state has arrived, so its place is free */
        a->mix(a->ctx, run->x, (size_t)r->n, 1, (const double[]){1},
               (const float *const[]){r->denoised_there});
        st = graft_resident_end(r->resident, r->denoised, e);
    }
    a->free(a->ctx, r->denoised_there);
    return st;
}

/* The state of the first sigma. */
static void begin(run_state *r, const graft_guided_config *c)
{
    float sigma = r->levels ? graft_flow_form_sigma(r->levels[0]) : r->sigmas[0];
    memcpy(r->start, r->noise, (size_t)r->n * sizeof(float));
    graft_guided_start(c, sigma, r->latent, r->start);
    for (int64_t i = 0; r->levels && i < r->n; i++) r->start[i] *= 1.0f + r->levels[0];
}

/* A flow's state that has noise left is handed on as latent + s noise (flow_form.h), which is what
 * the form has already. At 1 nothing is left of the latent: the state stays the noise that it is.
 */
static void end(run_state *r)
{
    float last = r->sigmas[r->n_sigmas - 1];
    bool as_it_is = (r->levels != NULL) == (last < 1);
    if (!graft_model_is_flow(r->s->model) || !(last > 0) || as_it_is) return;
    float scale = r->levels ? 1.0f + r->levels[r->n_sigmas - 1] : 1.0f - last;
    for (int64_t i = 0; i < r->n; i++) r->start[i] /= scale;
}

/* What the schedule's numbers are to the sampler. */
static float as_level(const run_state *r, float sigma)
{
    return r->levels ? graft_flow_form_level(&r->table, sigma) : sigma;
}

static graft_status make_denoiser(run_state *r, graft_denoiser *out, graft_err *e)
{
    *out = r->resident ? graft_resident_denoiser(r->resident)
           : r->two    ? graft_two_models_denoiser(r->two)
                       : graft_guided_denoiser(r->guided);
    if (!r->levels) return GRAFT_OK;
    const graft_arrays *arrays = r->resident ? graft_resident_arrays(r->resident) : NULL;
    graft_status st = graft_flow_form_create(out, arrays, (size_t)r->n, &r->form, e);
    if (!st) *out = graft_flow_form_denoiser(r->form);
    return st;
}

/* What predicts. Latents of two models stay in the host's memory. */
static graft_status make_guided(run_state *r, const graft_guided_config *c, graft_err *e)
{
    if (r->s->negative_model) return graft_two_models_create(c, r->s->negative_model, &r->two, e);
    graft_status st = graft_guided_create(c, &r->guided, e);
    return st ? st : graft_resident_create(r->guided, r->s->sampler, &r->resident, e);
}

static graft_status integrate(run_state *r, graft_err *e)
{
    const graft_sampling *s = r->s;
    graft_denoiser d;
    graft_guided_config c = {.model = s->model,
                             .table = &r->table,
                             .positive = r->sides.positive,
                             .negative = r->sides.negative,
                             .third = {r->sides.third, s->third.way, s->third.scale},
                             .cfg = s->cfg,
                             .steps = r->n_sigmas - 1,
                             .first = r->sigmas[0],
                             .last = r->sigmas[r->n_sigmas - 1],
                             .seed = s->seed,
                             .mask = r->mask,
                             .latent = r->mask ? r->latent : NULL,
                             .noise = r->mask ? r->noise : NULL,
                             .task = r->task,
                             .tap = r->tap};
    memcpy(c.shape, r->shape, sizeof c.shape);
    c.layers = r->layers;
    begin(r, &c);
    if (r->mask && strcmp(s->sampler, "ddim") == 0) {
        /* What is kept gets noise of its own, not that of the start. */
        graft_rng own;
        graft_rng_seed(&own, s->seed + 1);
        graft_rng_randn(&own, r->noise, (size_t)r->n);
    }
    graft_status st = make_guided(r, &c, e);
    if (!st) st = make_denoiser(r, &d, e);
    if (st) return st;
    const graft_sampler_options *o = &s->options;
    const graft_sampler_numbers numbers = {.eta = o->eta,
                                           .s_noise = o->s_noise,
                                           .r = o->r,
                                           .order = o->order > INT_MAX ? INT_MAX : (int)o->order,
                                           .reverse = o->reverse,
                                           .adaptive = o->adaptive,
                                           .sa = o->sa};
    const bool told = o->given && o->sa.predictor; /* where noise is to be added */
    const float noise_from =
        told ? (float)o->sa.noise_from : graft_percent_to_sigma(&r->table, 0.2);
    const float noise_to = told ? (float)o->sa.noise_to : graft_percent_to_sigma(&r->table, 0.8);
    graft_sampler_run run = {.denoiser = &d,
                             .numbers = o->given ? &numbers : NULL,
                             .noise = &r->source,
                             .sigmas = sampler_sigmas(r),
                             .n_sigmas = r->n_sigmas,
                             .flow = r->levels != NULL,
                             .x = r->start,
                             .n = (size_t)r->n,
                             .batch = (size_t)r->shape[0],
                             .sigma_min = as_level(r, r->table.sigma[0]),
                             .sigma_max = as_level(r, r->table.sigma[r->table.count - 1]),
                             .noise_from_sigma = as_level(r, noise_from),
                             .noise_to_sigma = as_level(r, noise_to),
                             .step_ctx = r,
                             .step = step_done};
    st = r->resident ? integrate_there(r, &run, e) : graft_sampler_run_named(s->sampler, &run, e);
    if (st) return st;
    end(r);
    if (r->two)
        graft_two_models_tell(r->two);
    else
        graft_guided_tell(r->guided);
    return GRAFT_OK;
}

static graft_status prepare_only(const run_state *r, graft_err *e)
{
    const graft_sampling *s = r->s;
    graft_prepare_request rq = {.model = s->model,
                                .table = &r->table,
                                .positive = r->sides.positive,
                                .negative = r->sides.negative,
                                .third = r->sides.third,
                                .guided = graft_sampler_needs_unconditional(s->sampler) ||
                                          s->model->n_cfg_overrides || fabs(s->cfg - 1.0) > 1e-9,
                                .sigmas = r->sigmas,
                                .n_sigmas = r->n_sigmas};
    memcpy(rq.shape, r->shape, sizeof rq.shape);
    rq.layers = r->layers;
    const bool guided = rq.guided;
    if (!s->negative_model) return graft_prepare_run(&rq, r->task, e);
    graft_sigma_table other;
    rq.guided = false;
    rq.negative = rq.positive;
    graft_status st = graft_prepare_run(&rq, r->task, e);
    if (st || !guided) return st;
    graft_model_sigma_table(s->negative_model, &other);
    rq.model = s->negative_model;
    rq.table = &other;
    rq.positive = rq.negative = r->sides.negative;
    return graft_prepare_run(&rq, r->task, e);
}

/* In the latent's own scale, with the mask and the batch indices it came with. */
static graft_status make_result(const run_state *r, const float *data, const graft_latent *from,
                                graft_latent **out, graft_err *e)
{
    graft_latent *l;
    graft_status st = graft_latent_create_sampled(from, r->shape, &l, e);
    if (st) return st;
    graft_model_unscale_latent(r->s->model, data, (size_t)r->n, r->shape[2] * r->shape[3],
                               graft_latent_writable(l));
    *out = l;
    return GRAFT_OK;
}

static void unchanged(const graft_latent *latent, graft_latent **out, graft_latent **denoised)
{
    *out = graft_latent_retain((graft_latent *)latent);
    if (denoised) *denoised = graft_latent_retain(*out);
}

static graft_status results(const run_state *r, const graft_latent *from, graft_latent **out,
                            graft_latent **denoised, graft_err *e)
{
    graft_latent *last = NULL, *x = NULL;
    graft_status st = GRAFT_OK;
    if (r->stepped) st = make_result(r, r->denoised, from, &last, e);
    if (!st) st = make_result(r, r->start, from, &x, e);
    if (st) {
        graft_latent_release(last);
        return st;
    }
    if (denoised) *denoised = last ? last : graft_latent_retain(x);
    *out = x;
    return GRAFT_OK;
}

const char *const *graft_sampler_names(void)
{
    return graft_sampler_list();
}

const char *const *graft_scheduler_names(void)
{
    return graft_schedule_names();
}

graft_status graft_sample_tapped(const graft_sampling *s, const graft_latent *latent,
                                 const graft_task *task, const graft_guided_tap *tap,
                                 graft_latent **out, graft_latent **denoised, graft_err *e)
{
    if (!graft_sampler_known(s->sampler))
        return graft_fail(e, GRAFT_E_ARG, "unknown sampler %s", s->sampler);
    run_state *r = graft_calloc(1, sizeof *r);
    graft_status st = GRAFT_OK;
    if (!r) return graft_fail_nomem(e, "sampling");
    r->s = s;
    r->task = task;
    r->tap = tap;
    r->sigmas = graft_sigmas_data(s->sigmas, &r->n_sigmas);
    graft_task_phase(task, "sample");
    graft_model_sigma_table(s->model, &r->table);
    GRAFT_TRY(take_latent(r, latent, e));
    if (r->n_sigmas < 2) {
        unchanged(latent, out, denoised);
        goto out;
    }
    GRAFT_TRY(check_sigmas(r, e));
    GRAFT_TRY(check_layers(r, e));
    if (s->negative_model) GRAFT_TRY(graft_two_models_check(s, e));
    GRAFT_TRY(take_mask(r, latent, e));
    GRAFT_TRY(graft_opposites_make(s->positive, s->negative, r->shape, &r->sides, e));
    if (s->third.prompt) GRAFT_TRY(graft_opposites_third(&r->sides, s->third.prompt, r->shape, e));
    GRAFT_TRY(graft_opposites_fill(&r->sides, &s->model->arch, e));
    if (task && task->compile_only) {
        GRAFT_TRY(prepare_only(r, e));
        unchanged(latent, out, denoised);
        goto out;
    }
    if (denoised && !(r->denoised = graft_malloc_array((size_t)r->n, sizeof(float)))) {
        st = graft_fail_nomem(e, "the denoised latent");
        goto out;
    }
    if (s->add_noise)
        GRAFT_TRY(
            graft_noise_latent(s->seed, r->shape, graft_latent_batch_index(latent), r->noise, e));
    GRAFT_TRY(make_levels(r, e));
    GRAFT_TRY(make_source(r, e));
    graft_previews_begin(&r->previews, s->model, task, r->shape);
    GRAFT_TRY(integrate(r, e));
    GRAFT_TRY(results(r, latent, out, denoised, e));
out:
    finish(r);
    graft_free(r);
    return st;
}
