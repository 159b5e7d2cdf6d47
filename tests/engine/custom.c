/* Sampling put together from its parts: the bits of KSampler where it means the same, the last
 * prediction as a second result, and sigmas of every kind. */
#include <math.h>

#include "engine/calibrate/quantize.h"
#include "engine/denoise/sample.h"
#include "engine/image/latent.h"
#include "tests/engine/sample.h"

enum { N = OUT, PICTURES = 2 };

static graft_engine *engine;
static graft_model *model;
static graft_cond *positive, *negative;
static graft_latent *empty, *pair; /* one picture of zeros; two of values */

typedef struct values {
    float v[PICTURES * N];
    size_t n;
} values;

static values values_of_latent(const graft_latent *l)
{
    values r = {.n = 0};
    int64_t shape[4];
    const float *data = l ? graft_latent_data(l, shape) : NULL;
    if (!data) return r;
    r.n = (size_t)shape_count(shape, 4);
    CHECK(r.n <= PICTURES * N);
    if (r.n <= PICTURES * N) memcpy(r.v, data, r.n * sizeof *data);
    return r;
}

static bool same(const values *a, const values *b)
{
    return a->n && a->n == b->n && memcmp(a->v, b->v, a->n * sizeof *a->v) == 0;
}

static bool all_finite(const values *a)
{
    for (size_t i = 0; i < a->n; i++)
        if (!isfinite(a->v[i])) return false;
    return a->n > 0;
}

static graft_sample_params params(const char *sampler, const char *scheduler, int64_t steps)
{
    return (graft_sample_params){.seed = 11,
                                 .add_noise = true,
                                 .steps = steps,
                                 .cfg = 4,
                                 .sampler = sampler,
                                 .scheduler = scheduler,
                                 .denoise = 1,
                                 .end_at_step = 10000};
}

static graft_latent *ksampler(const graft_model *m, graft_sample_params p, const graft_latent *from)
{
    graft_latent *out = NULL;
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(graft_sample(m, &p, positive, negative, from, NULL, &out, &e), &e);
    return out;
}

/* With what `p` says apart from its sigmas. */
static graft_sampling parts(const graft_model *m, const graft_sample_params *p,
                            const graft_sigmas *sigmas)
{
    return (graft_sampling){.model = m,
                            .positive = positive,
                            .negative = negative,
                            .cfg = p->cfg,
                            .sampler = p->sampler,
                            .sigmas = sigmas,
                            .add_noise = p->add_noise,
                            .seed = p->seed};
}

/* The result; *last, where it is not NULL, is the prediction. */
static graft_latent *custom(const graft_sampling *s, const graft_latent *from, graft_latent **last)
{
    graft_latent *out = NULL;
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(graft_sample_custom(s, from, NULL, &out, last, &e), &e);
    return out;
}

static values custom_values(const graft_sampling *s, const graft_latent *from)
{
    graft_latent *out = custom(s, from, NULL);
    values v = values_of_latent(out);
    graft_latent_release(out);
    return v;
}

static graft_sigmas *sigmas_of(const float *v, size_t n)
{
    graft_sigmas *s = NULL;
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(graft_sigmas_from_data(v, n, &s, &e), &e);
    return s;
}

static graft_sigmas *scheduled(const graft_model *m, const char *name, int64_t steps,
                               double denoise)
{
    graft_sigmas *s = NULL;
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(graft_sigmas_from_model(m, name, steps, denoise, &s, &e), &e);
    return s;
}

/* ------------------------------------------------------------------ as KSampler */

static void check_same(const graft_model *m, graft_sample_params p, const graft_latent *from)
{
    graft_sigmas *sigmas = scheduled(m, p.scheduler, p.steps, p.denoise);
    const graft_sampling s = parts(m, &p, sigmas);
    graft_latent *want = ksampler(m, p, from), *last = NULL, *got = custom(&s, from, &last);
    values a = values_of_latent(want), b = values_of_latent(got), d = values_of_latent(last);
    int failures = test_failures;
    CHECK(same(&a, &b));
    CHECK(all_finite(&a) && all_finite(&d));
    if (test_failures != failures)
        fprintf(stderr, "  %s, %s, denoise %g\n", p.sampler, p.scheduler, p.denoise);
    graft_latent_release(want);
    graft_latent_release(got);
    graft_latent_release(last);
    graft_sigmas_release(sigmas);
}

static void every_sampler_has_ksamplers_bits(void)
{
    for (const char *const *name = graft_sampler_names(); *name; name++)
        if (!graft_sampler_discards_penultimate(*name))
            check_same(model, params(*name, "normal", 4), empty);
}

static void every_scheduler_too(void)
{
    for (const char *const *name = graft_scheduler_names(); *name; name++)
        for (int half = 0; half < 2; half++) {
            graft_sample_params p = params("euler_ancestral", *name, 5);
            p.denoise = half ? 0.5 : 1;
            check_same(model, p, pair);
        }
}

/* KSampler drops a sigma for these samplers, a scheduler's node does not know of them. */
static void a_sigma_is_dropped_by_ksampler_alone(void)
{
    static const char *const names[] = {"dpm_2", "dpm_2_ancestral", "uni_pc", "uni_pc_bh2"};
    graft_sigmas *four = scheduled(model, "karras", 4, 1), *five = scheduled(model, "karras", 5, 1);
    size_t n;
    const float *v = graft_sigmas_data(five, &n);
    CHECK_INT(n, 6);
    const float kept[5] = {v[0], v[1], v[2], v[3], 0};
    graft_sigmas *dropped = sigmas_of(kept, 5);
    for (int i = 0; i < 4; i++) {
        const graft_sample_params p = params(names[i], "karras", 4);
        const graft_sampling with = parts(model, &p, four), without = parts(model, &p, dropped);
        graft_latent *want = ksampler(model, p, empty);
        values a = values_of_latent(want), b = custom_values(&with, empty),
               c = custom_values(&without, empty);
        CHECK(same(&a, &c));
        CHECK(!same(&a, &b));
        graft_latent_release(want);
    }
    graft_sigmas_release(four);
    graft_sigmas_release(five);
    graft_sigmas_release(dropped);
}

static graft_latent *masked(const graft_latent *l)
{
    static const int64_t shape[4] = {1, SIDE, SIDE, 1};
    float v[SIDE * SIDE];
    graft_image *mask = NULL;
    graft_latent *out = NULL;
    graft_err e = GRAFT_ERR_INIT;
    for (int i = 0; i < SIDE * SIDE; i++) v[i] = (float)(i / SIDE >= SIDE / 2);
    CHECK_OK(graft_image_from_data(v, shape, true, &mask, &e), &e);
    CHECK_OK(graft_latent_set_mask(l, mask, &out, &e), &e);
    graft_image_release(mask);
    return out;
}

/* What is not painted over stays in the prediction, too. */
static void masks_and_batches(void)
{
    static const char *const few[] = {"ddim", "dpmpp_2m_sde", "euler_cfg_pp"};
    graft_latent *second = NULL;
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(graft_latent_from_batch(pair, 1, 1, &second, &e), &e); /* draws its own noise */
    graft_latent *hole = masked(pair), *both = masked(second);
    for (int i = 0; i < 3; i++) {
        graft_sample_params p = params(few[i], "karras", 4);
        p.denoise = 0.6;
        check_same(model, p, hole);
        check_same(model, p, second);
        check_same(model, p, both);
    }
    const graft_sample_params p = params("euler", "normal", 3);
    graft_sigmas *sigmas = sigmas_of((const float[]){8, 4, 2}, 3);
    const graft_sampling s = parts(model, &p, sigmas);
    graft_latent *last = NULL, *out = custom(&s, hole, &last);
    values was = values_of_latent(hole), x = values_of_latent(out), d = values_of_latent(last);
    for (int y = 0; y < SIDE / 2; y++) {
        CHECK_NEAR(d.v[y * SIDE], was.v[y * SIDE], 1e-6);
        CHECK(fabsf(x.v[y * SIDE] - was.v[y * SIDE]) > 1e-3); /* as noisy as the rest */
    }
    CHECK(graft_latent_mask(last) != NULL);
    graft_latent_release(last);
    graft_latent_release(out);
    graft_sigmas_release(sigmas);
    graft_latent_release(second);
    graft_latent_release(hole);
    graft_latent_release(both);
}

static void options_of_the_model_hold(void)
{
    const graft_deepcache_options cache = {2, 0, 0, 0, 1000, "uniform", 0, false};
    graft_model *m = NULL;
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(graft_model_deepcache(model, &cache, &m, &e), &e);
    check_same(m, params("heun", "normal", 5), empty);
    check_same(m, params("dpmpp_sde", "karras", 5), empty);
    graft_model_release(m);
    CHECK_OK(graft_model_sampling(model, "v_prediction", true, &m, &e), &e);
    check_same(m, params("euler", "sgm_uniform", 3), empty);
    graft_model_release(m);
    CHECK_OK(graft_model_sampling(model, "lcm", false, &m, &e), &e);
    check_same(m, params("lcm", "sgm_uniform", 3), empty);
    graft_model_release(m);
    CHECK_OK(graft_model_rescale_cfg(model, 0.7, &m, &e), &e);
    check_same(m, params("euler", "simple", 3), pair);
    graft_model_release(m);
}

static void without_noise(void)
{
    graft_sample_params p = params("ddim", "normal", 4);
    p.add_noise = false;
    p.denoise = 0.5;
    check_same(model, p, pair);
    p.sampler = "dpmpp_2m_sde"; /* draws its own, of the same seed */
    check_same(model, p, pair);
}

/* Two samplers that share a schedule, as KSamplerAdvanced twice. */
static void split_as_advanced(void)
{
    graft_sample_params p = params("dpmpp_2m", "karras", 5);
    graft_sigmas *all = scheduled(model, "karras", 5, 1), *high = NULL, *low = NULL;
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(graft_sigmas_split(all, 2, &high, &low, &e), &e);
    graft_sampling s = parts(model, &p, high);
    graft_latent *noisy = custom(&s, empty, NULL);
    s.sigmas = low;
    s.add_noise = false;
    values got = custom_values(&s, noisy);
    p.end_at_step = 2;
    graft_latent *first = ksampler(model, p, empty);
    values a = values_of_latent(first), b = values_of_latent(noisy);
    CHECK(same(&a, &b));
    p.end_at_step = 10000, p.start_at_step = 2, p.add_noise = false;
    graft_latent *second = ksampler(model, p, first);
    values want = values_of_latent(second);
    CHECK(same(&got, &want));
    graft_latent_release(first);
    graft_latent_release(second);
    graft_latent_release(noisy);
    graft_sigmas_release(all);
    graft_sigmas_release(high);
    graft_sigmas_release(low);
}

/* ------------------------------------------------------------------ guidance and prediction */

static void the_positive_prompt_alone(void)
{
    static const char *const few[] = {"euler", "euler_cfg_pp", "dpmpp_2m_sde"};
    graft_sigmas *sigmas = scheduled(model, "normal", 3, 1);
    for (int i = 0; i < 3; i++) {
        graft_sample_params p = params(few[i], "normal", 3);
        graft_sampling s = parts(model, &p, sigmas);
        s.negative = NULL;
        values alone = custom_values(&s, empty);
        s.negative = graft_sampler_needs_unconditional(few[i]) ? positive : negative;
        s.cfg = 1;
        values one = custom_values(&s, empty);
        CHECK(same(&alone, &one) && all_finite(&alone));
        s.negative = negative;
        s.cfg = 4;
        values both = custom_values(&s, empty);
        CHECK(!same(&alone, &both));
    }
    graft_sigmas_release(sigmas);
}

/* Euler's step to sigma 0 is the prediction, so it tells what others predicted there. */
static void the_last_prediction(void)
{
    const graft_sample_params p = params("euler", "normal", 3);
    graft_sigmas *some = sigmas_of((const float[]){14, 6, 3}, 3),
                 *all = sigmas_of((const float[]){14, 6, 0}, 3);
    graft_sampling s = parts(model, &p, some);
    graft_latent *last = NULL, *out = custom(&s, pair, &last);
    values x = values_of_latent(out), d = values_of_latent(last);
    s.sigmas = all;
    graft_latent *end_last = NULL, *end = custom(&s, pair, &end_last);
    values y = values_of_latent(end), f = values_of_latent(end_last);
    CHECK(same(&d, &y));
    CHECK(same(&f, &y));
    CHECK(!same(&d, &x));
    graft_latent_release(last);
    graft_latent_release(out);
    graft_latent_release(end_last);
    graft_latent_release(end);
    graft_sigmas_release(some);
    graft_sigmas_release(all);
}

static bool unchanged(const graft_sampling *s, const graft_task *task)
{
    graft_latent *out = NULL, *last = NULL;
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(graft_sample_custom(s, pair, task, &out, &last, &e), &e);
    bool same_object = out == pair && last == pair;
    graft_latent_release(out);
    graft_latent_release(last);
    return same_object;
}

static void nothing_to_do(void)
{
    const graft_sample_params p = params("euler", "normal", 3);
    graft_sigmas *none = sigmas_of(NULL, 0), *one = sigmas_of((const float[]){5}, 1),
                 *three = sigmas_of((const float[]){5, 2, 0}, 3);
    graft_sampling s = parts(model, &p, none);
    const graft_task ahead = {.compile_only = true};
    CHECK(unchanged(&s, NULL));
    s.sigmas = one;
    CHECK(unchanged(&s, NULL));
    s.sigmas = three;
    CHECK(unchanged(&s, &ahead));
    CHECK(!unchanged(&s, NULL));
    /* The adaptive sampler has no steps upwards: the noise is added, and that is all. */
    graft_sigmas *up = sigmas_of((const float[]){1, 2, 4}, 3);
    s.sigmas = up;
    s.sampler = "dpm_adaptive";
    graft_latent *last = NULL, *out = custom(&s, pair, &last);
    values x = values_of_latent(out), d = values_of_latent(last);
    CHECK(same(&x, &d));
    graft_latent_release(out);
    graft_latent_release(last);
    graft_sigmas_release(none);
    graft_sigmas_release(one);
    graft_sigmas_release(three);
    graft_sigmas_release(up);
}

/* ------------------------------------------------------------------ all kinds of sigmas */

typedef struct seen {
    uint64_t steps, total, previews, latents, asked, limit;
} seen;

static void on_progress(void *ctx, uint64_t done, uint64_t total)
{
    seen *s = ctx;
    s->steps = done;
    s->total = total;
}

static void on_preview(void *ctx, const uint8_t *rgb, int width, int height)
{
    ((seen *)ctx)->previews++;
    CHECK(rgb && width == SIDE && height == SIDE);
}

static void on_latent(void *ctx, const float *x, const int64_t shape[4])
{
    ((seen *)ctx)->latents++;
    CHECK(x && shape[1] == 4);
}

static bool on_cancelled(void *ctx)
{
    seen *s = ctx;
    return s->limit && ++s->asked > s->limit;
}

/* Nothing that is a list of sigmas makes a run crash or go on for ever. */
static void any_sigmas(void)
{
    static const float lists[][4] = {
        {0.0001f, 1, 6, 14}, {0, 0, 0, 0}, {1e30f, 1e10f, 1, 0}, {500, 5, 3, 0}};
    int turn = 0;
    if (UNDER_SANITIZER) puts("skipped: three of four lists of each sampler");
    for (const char *const *name = graft_sampler_names(); *name; name++, turn++)
        for (size_t k = 0; k < sizeof lists / sizeof *lists; k++) {
            if (UNDER_SANITIZER && k != (size_t)turn % 4) continue;
            /* It takes thousands of steps from so far up: tests/sampling/sampler.c does. */
            if (lists[k][0] > 1e29f && strcmp(*name, "dpm_adaptive") == 0) continue;
            const graft_sample_params p = params(*name, "normal", 3);
            graft_sigmas *sigmas = sigmas_of(lists[k], 4);
            const graft_sampling s = parts(model, &p, sigmas);
            seen w = {0};
            const graft_task task = {
                .ctx = &w, .progress = on_progress, .preview = on_preview, .latent = on_latent};
            graft_latent *out = NULL, *last = NULL;
            graft_err e = GRAFT_ERR_INIT;
            graft_status st = graft_sample_custom(&s, empty, &task, &out, &last, &e);
            CHECK(st == GRAFT_OK || st == GRAFT_E_ARG);
            CHECK((st == GRAFT_OK) == (out && last));
            CHECK(w.previews == w.latents);
            graft_latent_release(out);
            graft_latent_release(last);
            graft_sigmas_release(sigmas);
        }
}

/* From a picture to the noise that it would come from: sigmas that rise. */
static void upwards(void)
{
    static const char *const ode[] = {"euler", "ddim", "heun", "dpm_2", "dpmpp_2m", "lms"};
    graft_sigmas *all = scheduled(model, "karras", 10, 1), *up = NULL;
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(graft_sigmas_flip(all, &up, &e), &e);
    for (size_t i = 0; i < sizeof ode / sizeof *ode; i++) {
        graft_sample_params p = params(ode[i], "karras", 10);
        p.add_noise = false;
        const graft_sampling s = parts(model, &p, up);
        values noise = custom_values(&s, pair), was = values_of_latent(pair);
        double away = 0, size = 0;
        for (size_t k = 0; k < was.n; k++) {
            away += pow(noise.v[k] - was.v[k], 2);
            size += pow(was.v[k], 2);
        }
        CHECK(all_finite(&noise) && away > 4 * size);
    }
    graft_sigmas_release(all);
    graft_sigmas_release(up);
}

static void progress_and_cancelling(void)
{
    const graft_sample_params p = params("euler", "normal", 5);
    graft_sigmas *sigmas = scheduled(model, "normal", 5, 1);
    const graft_sampling s = parts(model, &p, sigmas);
    seen w = {0};
    const graft_task task = {.ctx = &w,
                             .progress = on_progress,
                             .preview = on_preview,
                             .latent = on_latent,
                             .cancelled = on_cancelled};
    graft_latent *out = NULL, *last = NULL;
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(graft_sample_custom(&s, empty, &task, &out, &last, &e), &e);
    CHECK(w.steps == 5 && w.total == 5 && w.previews == 5 && w.latents == 5);
    graft_latent_release(out);
    graft_latent_release(last);
    out = last = NULL;
    w = (seen){.limit = 20};
    CHECK_INT(graft_sample_custom(&s, empty, &task, &out, &last, &e), GRAFT_E_CANCEL);
    CHECK(!out && !last && w.steps < 5);
    graft_sampling bad = s;
    bad.sampler = "nobody";
    CHECK_INT(graft_sample_custom(&bad, empty, NULL, &out, &last, &e), GRAFT_E_ARG);
    CHECK(!out && !last && strstr(e.text, "nobody"));
    graft_sigmas_release(sigmas);
}

/* ------------------------------------------------------------------ sigmas of a model */

static void check_sigmas(graft_sigmas *s, const float *want, size_t n_want)
{
    size_t n;
    const float *got = graft_sigmas_data(s, &n);
    CHECK_INT(n, n_want);
    if (n == n_want) CHECK(memcmp(got, want, n * sizeof *got) == 0);
    graft_sigmas_release(s);
}

static size_t count(const char *scheduler, int64_t steps, double denoise)
{
    size_t n;
    graft_sigmas *s = scheduled(model, scheduler, steps, denoise);
    graft_sigmas_data(s, &n);
    graft_sigmas_release(s);
    return n;
}

static void schedulers_of_a_model(void)
{
    graft_sigma_table t;
    float want[64];
    size_t n = 0;
    graft_sigmas *s = NULL;
    graft_err e = GRAFT_ERR_INIT;
    graft_model_sigma_table(model, &t);
    CHECK_OK(graft_schedule_make(&t, "normal", 11, want, 64, &n, &e), &e);
    check_sigmas(scheduled(model, "normal", 11, 1), want, 12);
    check_sigmas(scheduled(model, "normal", 5, 0.45), want + 6, 6); /* int(5 / 0.45) = 11 steps */
    CHECK_INT(count("normal", 5, 0), 0);
    /* This scheduler gives one sigma more than 7 steps need; the first goes. */
    CHECK_OK(graft_schedule_make(&t, "ddim_uniform", 7, want, 64, &n, &e), &e);
    CHECK_INT(n, 9);
    check_sigmas(scheduled(model, "ddim_uniform", 7, 1), want + 1, 8);
    CHECK_INT(count("normal", 100000, 1), 100001);
    static const int64_t steps[] = {0, -3, 100001, INT64_MAX};
    for (int i = 0; i < 4; i++)
        CHECK_INT(graft_sigmas_from_model(model, "normal", steps[i], 1, &s, &e), GRAFT_E_ARG);
    CHECK_INT(graft_sigmas_from_model(model, "normal", 20, 1e-9, &s, &e), GRAFT_E_ARG);
    CHECK_INT(graft_sigmas_from_model(model, "normal", 20, -1, &s, &e), GRAFT_E_ARG);
    CHECK_INT(graft_sigmas_from_model(model, "normal", 20, NAN, &s, &e), GRAFT_E_ARG);
    CHECK_INT(graft_sigmas_from_model(model, "nobody's", 20, 1, &s, &e), GRAFT_E_NOTFOUND);
    CHECK(!s);
}

static void turbo(int64_t steps, double denoise, size_t n, const float *want)
{
    graft_sigmas *s = NULL;
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(graft_sigmas_turbo(model, steps, denoise, &s, &e), &e);
    if (s) check_sigmas(s, want, n);
}

/* Timestep t has the table's sigma t. */
static void turbo_steps(void)
{
    graft_sigma_table t;
    graft_sigmas *s = NULL;
    graft_err e = GRAFT_ERR_INIT;
    graft_model_sigma_table(model, &t);
    float all[11] = {0};
    for (int i = 0; i < 10; i++) all[i] = graft_timestep_to_sigma(&t, (float)(999 - 100 * i));
    CHECK_NEAR(all[0], t.sigma[999], 1e-5);
    CHECK_NEAR(all[9], t.sigma[99], 1e-6);
    turbo(10, 1, 11, all);
    turbo(1, 1, 2, (const float[]){all[0], 0});
    turbo(2, 0.59, 3, (const float[]){all[5], all[6], 0}); /* int(5.9) of them are left */
    turbo(4, 0.2, 3, (const float[]){all[8], all[9], 0});
    turbo(4, 0, 1, (const float[]){0});
    CHECK_INT(graft_sigmas_turbo(model, 0, 1, &s, &e), GRAFT_E_ARG);
    CHECK_INT(graft_sigmas_turbo(model, 11, 1, &s, &e), GRAFT_E_ARG);
    CHECK_INT(graft_sigmas_turbo(model, 1, 1.5, &s, &e), GRAFT_E_ARG);
    CHECK(!s);
}

/* ------------------------------------------------------------------ calibration */

/* A model that waits for its first run takes this one for it, and finds what KSampler finds. */
static void the_first_run_calibrates(void)
{
    const graft_quantize_options o = {.bits = 8,
                                      .conv = true,
                                      .linear = true,
                                      .conv_mse_threshold = 1,
                                      .linear_mse_threshold = 1};
    graft_model *one = NULL, *two = NULL;
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(graft_model_quantize(model, &o, NULL, &one, NULL, &e), &e);
    CHECK_OK(graft_model_quantize(model, &o, NULL, &two, NULL, &e), &e);
    const graft_sample_params p = params("euler", "normal", 4);
    graft_sigmas *none = sigmas_of(NULL, 0), *sigmas = scheduled(model, "normal", 4, 1);
    graft_sampling s = parts(one, &p, none);
    values idle = custom_values(&s, empty);
    CHECK(idle.n && !one->quantizer->plan); /* no step to calibrate on */
    s.sigmas = sigmas;
    values a = custom_values(&s, empty), again = custom_values(&s, empty);
    graft_latent *want = ksampler(two, p, empty);
    values b = values_of_latent(want);
    CHECK(one->quantizer->plan && two->quantizer->plan);
    CHECK(same(&a, &b) && same(&a, &again));
    s.model = model;
    values plain = custom_values(&s, empty);
    CHECK(!same(&a, &plain));
    graft_latent_release(want);
    graft_model_release(one);
    graft_model_release(two);
    graft_sigmas_release(none);
    graft_sigmas_release(sigmas);
}

/* A run with the positive prompt alone calibrates, too. */
static void so_does_one_prompt(void)
{
    const graft_quantize_options o = {
        .bits = 8, .linear = true, .conv_mse_threshold = 1, .linear_mse_threshold = 1};
    graft_model *m = NULL;
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(graft_model_quantize(model, &o, NULL, &m, NULL, &e), &e);
    const graft_sample_params p = params("euler", "normal", 4);
    graft_sigmas *sigmas = scheduled(model, "normal", 4, 1);
    graft_sampling s = parts(m, &p, sigmas);
    s.negative = NULL;
    values v = custom_values(&s, empty);
    CHECK(all_finite(&v) && m->quantizer->plan);
    graft_model_release(m);
    graft_sigmas_release(sigmas);
}

/* ------------------------------------------------------------------ */

static void open_all(void)
{
    static const int64_t shape[4] = {PICTURES, 4, SIDE, SIDE};
    float v[PICTURES * N];
    graft_err e = GRAFT_ERR_INIT;
    model = load_model(engine, SD1);
    CHECK_OK(sample_cond(model, &positive, &e), &e);
    CHECK_OK(graft_cond_zero_out(positive, &negative, &e), &e);
    CHECK_OK(graft_latent_empty(4, 8 * SIDE, 8 * SIDE, 1, &empty, &e), &e);
    for (size_t i = 0; i < PICTURES * N; i++) v[i] = 4 * fixed_value(i);
    CHECK_OK(graft_latent_from_data(v, shape, &pair, &e), &e);
}

static void close_all(void)
{
    graft_latent_release(empty);
    graft_latent_release(pair);
    graft_cond_release(positive);
    graft_cond_release(negative);
    graft_model_release(model);
    graft_engine_destroy(engine);
}

/* A sampler's numbers reach it: without noise of its own euler_ancestral is euler, and the usual
 * numbers change no bit. */
static void numbers_of_samplers(void)
{
    graft_sample_params p = params("euler", "normal", 4);
    graft_sigmas *sigmas = scheduled(model, "normal", 4, 1);
    graft_sampling s = parts(model, &p, sigmas);
    values plain = custom_values(&s, empty), noisy, usual, quiet;
    graft_err e = GRAFT_ERR_INIT;
    graft_latent *out = NULL;
    s.sampler = "euler_ancestral";
    noisy = custom_values(&s, empty);
    s.options =
        (graft_sampler_options){.given = true, .eta = 1, .s_noise = 1, .r = 0.5, .order = 4};
    usual = custom_values(&s, empty);
    s.options.eta = 0;
    quiet = custom_values(&s, empty);
    CHECK(same(&noisy, &usual) && !same(&noisy, &plain));
    CHECK_INT(quiet.n, plain.n);
    for (size_t i = 0; i < plain.n; i++) CHECK_NEAR(quiet.v[i], plain.v[i], 1e-3);
    s.sampler = "er_sde"; /* whose ODE is Euler's in one stage */
    s.options = (graft_sampler_options){.given = true, .r = 0.5, .order = 1, .reverse = true};
    quiet = custom_values(&s, empty);
    for (size_t i = 0; i < plain.n; i++) CHECK_NEAR(quiet.v[i], plain.v[i], 1e-3);
    s.sampler = "euler_ancestral";
    s.options.eta = NAN;
    CHECK_INT(graft_sample_custom(&s, empty, NULL, &out, NULL, &e), GRAFT_E_ARG);
    s.sampler = "heun";
    s.options.eta = 1;
    CHECK_INT(graft_sample_custom(&s, empty, NULL, &out, NULL, &e), GRAFT_E_UNSUPPORTED);
    s.sampler = "lms";
    s.options.order = INT64_MAX;
    CHECK_INT(graft_sample_custom(&s, empty, NULL, &out, NULL, &e), GRAFT_E_UNSUPPORTED);
    graft_sigmas_release(sigmas);
}

/* sa_solver's noise stands between the sigmas that it is told, usually those of 20 % and 80 %. */
static void sigmas_of_noise(void)
{
    graft_sample_params p = params("sa_solver", "normal", 6);
    graft_sigmas *sigmas = scheduled(model, "normal", 6, 1);
    graft_sampling s = parts(model, &p, sigmas);
    values plain = custom_values(&s, empty), told, none, quiet;
    graft_err e = GRAFT_ERR_INIT;
    s.options =
        (graft_sampler_options){.given = true, .eta = 1, .s_noise = 1, .r = 0.5, .order = 4};
    s.options.sa = (graft_sa_options){.predictor = 3, .corrector = 4};
    CHECK_OK(graft_sigmas_at_percent(model, 0.2, false, &s.options.sa.noise_from, &e), &e);
    CHECK_OK(graft_sigmas_at_percent(model, 0.8, false, &s.options.sa.noise_to, &e), &e);
    told = custom_values(&s, empty);
    CHECK(same(&plain, &told));
    s.options.sa.noise_to = s.options.sa.noise_from = 1e6; /* nowhere */
    none = custom_values(&s, empty);
    CHECK(!same(&plain, &none));
    s.options.sa.noise_to = 0, s.options.eta = 0;
    quiet = custom_values(&s, empty);
    CHECK(same(&none, &quiet));
    graft_sigmas_release(sigmas);
}

int main(void)
{
    graft_alloc_stats stats;
    engine = make_engine("cpu");
    if (!engine) return test_end();
    open_all();
    RUN(every_sampler_has_ksamplers_bits);
    RUN(every_scheduler_too);
    RUN(a_sigma_is_dropped_by_ksampler_alone);
    RUN(masks_and_batches);
    RUN(options_of_the_model_hold);
    RUN(without_noise);
    RUN(split_as_advanced);
    RUN(the_positive_prompt_alone);
    RUN(the_last_prediction);
    RUN(nothing_to_do);
    RUN(any_sigmas);
    RUN(upwards);
    RUN(progress_and_cancelling);
    RUN(schedulers_of_a_model);
    RUN(turbo_steps);
    RUN(the_first_run_calibrates);
    RUN(so_does_one_prompt);
    RUN(numbers_of_samplers);
    RUN(sigmas_of_noise);
    close_all();
    graft_alloc_stats_get(&stats);
    CHECK_INT(stats.live_blocks, 0);
    return test_end();
}
