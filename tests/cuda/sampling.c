/* Sampling on the CUDA library with the fake driver: latents that stay on the device give the bits
 * that the host's way gives, and no step touches the host. */
#include "engine/cfg.h"
#include "engine/exec/recordings.h"
#include "engine/models/transformers/mmdit.h"
#include "engine/sampling/sampler.h"
#include "tests/cuda/both_ways.h"
#include "tests/cuda/least.h"

#define FREEU      GRAFT_SOURCE_DIR "/golden/small/freeu.safetensors"
#define SD3        GRAFT_SOURCE_DIR "/golden/small/mmdit_sd3.safetensors"
#define QWEN_IMAGE GRAFT_SOURCE_DIR "/golden/small/qwen_image_one.safetensors"
#define KONTEXT    GRAFT_SOURCE_DIR "/golden/small/flux_kontext.safetensors"
#define TAESD      GRAFT_SOURCE_DIR "/golden/small/taesd_levels.safetensors"

static char least[256], least_xl[256]; /* files */

/* ------------------------------------------------------------------ sums alone */

static graft_backend *backend_of(const graft_model *m)
{
    graft_backend *b = NULL;
    graft_dtype dtype;
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(graft_options_resolve(m->engine, &m->options, &b, &dtype, &e), &e);
    return b;
}

static float *there_alloc(void *ctx, size_t n)
{
    const graft_backend *b = ctx;
    return b->api->alloc(b->device, n * sizeof(float));
}

static void there_free(void *ctx, float *p)
{
    const graft_backend *b = ctx;
    if (p) b->api->free(b->device, p);
}

static void there_mix(void *ctx, float *out, size_t n, int count, const double *factor,
                      const float *const *in)
{
    const graft_backend *b = ctx;
    CHECK_INT(graft_backend_more(b)->mix(b->device, out, n, (uint32_t)count, factor, in), GRAFT_OK);
}

static graft_status there_put(void *ctx, float *out, const float *from, size_t n, graft_err *e)
{
    const graft_backend *b = ctx;
    (void)e;
    return graft_backend_more(b)->send(b->device, out, from, n * sizeof *from);
}

/* D(x, sigma), and without the prompt; on the device where b is not NULL. */
static graft_status made_up(const graft_backend *b, const float *x, double keep, float *out)
{
    if (b) {
        there_mix((void *)(uintptr_t)b, out, N, 1, &keep, &x);
        return GRAFT_OK;
    }
    for (int i = 0; i < N; i++) out[i] = (float)(keep * x[i]);
    return GRAFT_OK;
}

static graft_status denoise_one(void *ctx, const float *x, float sigma, float *out, graft_err *e)
{
    (void)e;
    return made_up(ctx, x, 0.9 / (1 + sigma), out);
}

static graft_status denoise_two(void *ctx, const float *x, float sigma, float *out,
                                float *unconditional, graft_err *e)
{
    (void)e;
    graft_status st = made_up(ctx, x, 0.7 / (2 + sigma), unconditional);
    return st ? st : made_up(ctx, x, 0.9 / (1 + sigma), out);
}

/* b: NULL for the host's way. */
static void walk(const char *name, const graft_backend *b, float out[N])
{
    static const float sigma[] = {12, 5.5f, 2.2f, 1.1f, 0.4f, 0};
    const graft_arrays arrays = {(void *)(uintptr_t)b, there_alloc, there_free, there_mix,
                                 there_put};
    graft_brownian *path = NULL;
    graft_rng rng;
    graft_err e = GRAFT_ERR_INIT;
    graft_rng_seed(&rng, 3);
    CHECK_OK(graft_brownian_create(0.4f, 12, 5, N, &path, &e), &e);
    graft_noise_source noise =
        graft_sampler_is_sde(name) ? graft_brownian_source(path) : graft_noise_plain(&rng);
    graft_denoiser d = {(void *)(uintptr_t)b, denoise_one, denoise_two};
    float *x = b ? there_alloc(arrays.ctx, N) : out;
    graft_sampler_run run = {.denoiser = &d,
                             .noise = &noise,
                             .sigmas = sigma,
                             .n_sigmas = 6,
                             .x = x,
                             .n = N,
                             .batch = 1,
                             .noise_from_sigma = 8,
                             .noise_to_sigma = 0.5f,
                             .arrays = b ? &arrays : NULL};
    for (int i = 0; i < N; i++) out[i] = 12 * fixed_value((uint64_t)i);
    if (b) CHECK_INT(b->api->upload(b->device, x, out, N * sizeof *x), GRAFT_OK);
    CHECK_OK(graft_sampler_run_named(name, &run, &e), &e);
    if (b) CHECK_INT(b->api->download(b->device, out, x, N * sizeof *x), GRAFT_OK);
    if (b) there_free(arrays.ctx, x);
    graft_brownian_destroy(path);
}

static void every_sampler(void)
{
    graft_engine *g = engine_in("cuda", "bf16");
    graft_model *m = load_model(g, least);
    const graft_backend *b = backend_of(m);
    size_t n = 0;
    for (const char *const *name = graft_sampler_list(); *name; name++) {
        float host[N], device[N];
        if (!graft_sampler_anywhere(*name)) {
            CHECK_STR(*name, "dpm_adaptive");
            continue;
        }
        int failures = test_failures;
        uint64_t down = fake->downloads;
        walk(*name, NULL, host);
        walk(*name, b, device);
        CHECK(memcmp(host, device, sizeof host) == 0);
        CHECK(host[0] == host[0] && host[0] != 0);
        CHECK_INT(fake->downloads, down + 1);
        if (test_failures != failures) fprintf(stderr, "  with %s\n", *name);
        n++;
    }
    CHECK_INT(n, 41);
    graft_model_release(m);
    graft_engine_destroy(g);
}

/* ------------------------------------------------------------------ whole runs */

/* Of each kind of draws and calls one, in whole runs. */
static void bits_of_the_host(void)
{
    static const char *const few[] = {"euler_ancestral_cfg_pp", "dpmpp_sde", "uni_pc", "ddpm"};
    graft_engine *g = engine_in("cuda", "bf16");
    graft_model *m = load_model(g, least);
    graft_cond *a = words(m, WORDS), *b = words(m, WORDS);
    for (size_t i = 0; i < sizeof few / sizeof *few - 2 * SANITIZED; i++) {
        const job j = job_of(m, a, b, few[i], 2);
        both_ways(&j);
    }
    float out[N];
    const job j = job_of(m, a, b, few[0], 2);
    uint64_t before = fake->download_bytes;
    CHECK_INT(sample(&j, NULL, false, out), N);
    CHECK_INT(fake->download_bytes - before, N * sizeof(float)); /* who wants one result has one */
    graft_cond_release(a);
    graft_cond_release(b);
    graft_model_release(m);
    graft_engine_destroy(g);
}

/* Kinds of prediction, guidance of 1, SDXL's y. */
static void all_that_predicts(void)
{
    static const char *const kinds[] = {"eps", "v_prediction", "x0", "lcm"};
    graft_engine *g = engine_in("cuda", "bf16");
    graft_model *m = load_model(g, least), *other = NULL;
    graft_cond *a = words(m, WORDS);
    graft_err e = GRAFT_ERR_INIT;
    for (int i = SANITIZED ? 3 : 0; i < 4; i++) {
        CHECK_OK(graft_model_sampling(m, kinds[i], false, &other, &e), &e);
        const job j = job_of(other, a, a, "lcm", 2);
        both_ways(&j);
        graft_model_release(other);
    }
    job j = job_of(m, a, a, "euler", 2);
    j.p.cfg = 1.0;
    both_ways(&j);
    graft_model_release(m);
    m = load_model(g, least_xl);
    CHECK(m->arch.adm_channels > 0);
    j = job_of(m, a, a, "euler", 2);
    both_ways(&j);
    graft_cond_release(a);
    graft_model_release(m);
    graft_engine_destroy(g);
}

/* Prompts of different lengths and with ranges need several batches. */
static void several_prompts(void)
{
    graft_engine *g = engine_in("cuda", "bf16");
    graft_model *m = load_model(g, least_xl);
    graft_cond *a = words(m, WORDS), *longer = words(m, WORDS + 2), *early = NULL, *two = NULL;
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(graft_cond_timestep_range(longer, 0.0, 0.5, &early, &e), &e);
    CHECK_OK(graft_cond_combine(early, a, &two, &e), &e);
    job j = job_of(m, two, a, "euler_cfg_pp", 2);
    both_ways(&j);
    j = job_of(m, early, early, "euler", 2); /* later steps have none */
    both_ways(&j);
    if (!SANITIZED) {
        j = job_of(m, longer, a, "euler", 2);
        both_ways(&j);
    }
    graft_cond_release(two);
    graft_cond_release(early);
    graft_cond_release(longer);
    graft_cond_release(a);
    graft_model_release(m);
    graft_engine_destroy(g);
}

static void masks_and_rescaling(void)
{
    graft_engine *g = engine_in("cuda", "bf16");
    graft_model *m = load_model(g, least), *rescaled = NULL;
    graft_cond *a = words(m, WORDS), *b = words(m, WORDS);
    graft_latent *latent = masked_latent(4);
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(graft_model_rescale_cfg(m, 0.7, &rescaled, &e), &e);
    job j = job_of(rescaled, a, b, "euler_cfg_pp", 2);
    j.latent = latent;
    both_ways(&j);
    if (!SANITIZED) {
        j = job_of(m, a, b, "ddim", 2); /* draws other noise for what is kept */
        j.latent = latent;
        both_ways(&j);
        j = job_of(rescaled, a, b, "dpmpp_2m", 2);
        both_ways(&j);
        j.p.cfg = 1.0; /* nothing to rescale */
        both_ways(&j);
    }
    graft_latent_release(latent);
    graft_cond_release(a);
    graft_cond_release(b);
    graft_model_release(rescaled);
    graft_model_release(m);
    graft_engine_destroy(g);
}

/* A mask's grey is the moment from which on a place changes. */
static void differential_masks(void)
{
    graft_engine *g = engine_in("cuda", "bf16");
    graft_model *m = load_model(g, least), *with = NULL;
    graft_cond *a = words(m, WORDS), *b = words(m, WORDS);
    graft_latent *latent = masked_latent(4);
    graft_err e = GRAFT_ERR_INIT;
    float plain[MOST], grey[MOST];
    CHECK_OK(graft_model_differential(m, 0.8, &with, &e), &e);
    job j = job_of(m, a, b, "euler", 4);
    j.latent = latent;
    size_t n = sample(&j, NULL, false, plain);
    j.m = with;
    both_ways(&j);
    CHECK_INT(sample(&j, NULL, false, grey), n);
    CHECK(memcmp(grey, plain, n * sizeof *grey) != 0);
    graft_latent_release(latent);
    graft_cond_release(a);
    graft_cond_release(b);
    graft_model_release(with);
    graft_model_release(m);
    graft_engine_destroy(g);
}

/* Rows that are computed a second time, in one batch and in several. */
static void perturbed_attention(void)
{
    graft_engine *g = engine_in("cuda", "bf16");
    graft_model *m = load_model(g, least), *with = NULL;
    graft_cond *a = words(m, WORDS), *longer = words(m, WORDS + 2), *two = NULL;
    graft_err e = GRAFT_ERR_INIT;
    float plain[N], away[N];
    CHECK_OK(graft_model_perturbed_attention(m, 2.5, &with, &e), &e);
    CHECK_OK(graft_cond_combine(longer, a, &two, &e), &e);
    job j = job_of(m, a, a, "euler", 2);
    sample(&j, NULL, false, plain);
    j.m = with;
    both_ways(&j);
    sample(&j, NULL, false, away);
    CHECK(memcmp(away, plain, sizeof away) != 0);
    j = job_of(with, two, a, "euler_cfg_pp", 2);
    both_ways(&j);
    j.p.cfg = 1;
    both_ways(&j);
    graft_cond_release(two);
    graft_cond_release(longer);
    graft_cond_release(a);
    graft_model_release(with);
    graft_model_release(m);
    graft_engine_destroy(g);
}

/* Flows: samplers that are written for other states, masks, and rows without some blocks. */
static void flows(void)
{
    const graft_skip_options o = {.layers = "0", .single_layers = "", .scale = 2, .end = 1};
    graft_engine *g = engine_in("cuda", "bf16");
    graft_model *m = load_model(g, SD3), *with = NULL;
    graft_cond *a = words(m, WORDS), *b = words(m, WORDS);
    graft_latent *latent = masked_latent(16);
    graft_err e = GRAFT_ERR_INIT;
    job j = job_of(m, a, b, "dpmpp_2m", 2);
    j.p.scheduler = "simple";
    j.latent = latent;
    both_ways(&j);
    j.p.sampler = "euler";
    for (int negative = SANITIZED; negative < 2; negative++) { /* these are batches of their own */
        CHECK_OK(negative ? graft_model_skip_negative(m, &o, &with, &e)
                          : graft_model_skip_blocks(m, &o, &with, &e),
                 &e);
        j.m = with;
        both_ways(&j);
        graft_model_release(with);
    }
    graft_latent_release(latent);
    graft_cond_release(a);
    graft_cond_release(b);
    graft_model_release(m);
    graft_engine_destroy(g);
}

/* Prompts of other lengths in one batch, of which the network is told how many tokens count. */
static void counted_prompts(void)
{
    graft_engine *g = engine_in("cuda", "bf16");
    for (int i = 0; i < 2; i++) {
        graft_model *m = load_model(g, i ? QWEN_IMAGE : SD3);
        const int64_t usual = i ? WORDS : GRAFT_MMDIT_TOKENS + 1;
        graft_cond *a = words(m, usual), *b = words(m, usual + 5);
        job j = job_of(m, a, b, "euler", 2);
        j.p.scheduler = "simple";
        both_ways(&j);
        graft_cond_release(a);
        graft_cond_release(b);
        graft_model_release(m);
    }
    graft_engine_destroy(g);
}

/* Pictures beside the latent: planes of an inpainting UNet, and FLUX's references. */
static void pictures_beside(void)
{
    char path[256];
    graft_engine *g = engine_in("cuda", "bf16");
    snprintf(path, sizeof path, "%s", temp_path("wide.safetensors"));
    write_wide(least, path);
    graft_model *m = load_model(g, path), *flux = load_model(g, KONTEXT);
    graft_cond *a = words(m, WORDS), *b = words(m, WORDS), *known = NULL;
    graft_latent *latent = masked_latent(4), *other = NULL;
    graft_err e = GRAFT_ERR_INIT;
    float alone[MOST], beside[MOST];
    CHECK_OK(graft_cond_inpaint(a, latent, &known, &e), &e);
    job j = job_of(m, known, b, "euler", 2);
    j.latent = latent;
    both_ways(&j);
    graft_cond_release(known);
    graft_cond_release(a);
    graft_cond_release(b);
    a = words(flux, WORDS);
    graft_latent_release(latent);
    latent = masked_latent(16);
    CHECK_OK(graft_latent_empty(16, 8 * PLACE, 8 * PLACE, 1, &other, &e), &e);
    CHECK_OK(graft_cond_reference(a, latent, &known, &e), &e);
    j = job_of(flux, a, a, "euler", 2);
    j.p.scheduler = "simple";
    j.latent = other;
    size_t n = sample(&j, NULL, false, alone);
    j.positive = known;
    both_ways(&j);
    CHECK_INT(sample(&j, NULL, false, beside), n);
    CHECK(memcmp(alone, beside, n * sizeof *alone) != 0);
    graft_latent_release(other);
    graft_latent_release(latent);
    graft_cond_release(known);
    graft_cond_release(a);
    graft_model_release(flux);
    graft_model_release(m);
    remove(path);
    graft_engine_destroy(g);
}

/* FreeU's factors lie on the device, too: with the features of a fast step before them, and with
 * nothing of them in the outermost one. */
static void factors_of_freeu(void)
{
    static const graft_freeu_options o = {2, 1.3, 1.4, 0.9, 0.2};
    graft_deepcache_options d = {.cache_interval = 2, .end_step = 1000, .schedule = "uniform"};
    graft_engine *g = engine_in("cuda", "bf16");
    graft_model *m = load_model(g, FREEU), *with = NULL, *cached = NULL;
    graft_cond *a = words(m, WORDS);
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(graft_model_freeu(m, &o, &with, &e), &e);
    job j = job_of(with, a, a, "euler", 2);
    both_ways(&j);
    for (int outermost = 0; outermost < 2 - SANITIZED; outermost++) {
        d.outermost = outermost;
        CHECK_OK(graft_model_deepcache(with, &d, &cached, &e), &e);
        j = job_of(cached, a, a, "euler", 2);
        both_ways(&j);
        graft_model_release(cached);
    }
    graft_cond_release(a);
    graft_model_release(with);
    graft_model_release(m);
    graft_engine_destroy(g);
}

static void stored_features(void)
{
    graft_engine *g = engine_in("cuda", "bf16");
    graft_model *m = load_model(g, least_xl), *cached = NULL;
    graft_cond *a = words(m, WORDS), *longer = words(m, WORDS + 2), *late = NULL, *two = NULL;
    graft_deepcache_options o = {.cache_interval = 3, .end_step = 1000, .schedule = "uniform"};
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(graft_model_deepcache(m, &o, &cached, &e), &e);
    job j = job_of(cached, a, a, "euler_ancestral", 4);
    both_ways(&j);
    if (!SANITIZED) { /* a prompt whose feature is missing when the others' are reused */
        CHECK_OK(graft_cond_timestep_range(longer, 0.3, 1.0, &late, &e), &e);
        CHECK_OK(graft_cond_combine(late, a, &two, &e), &e);
        j = job_of(cached, two, a, "heun", 4);
        both_ways(&j);
        graft_cond_release(two);
        graft_cond_release(late);
    }
    graft_model_release(cached);
    o.max_error = 0.5;
    CHECK_OK(graft_model_deepcache(m, &o, &cached, &e), &e);
    j = job_of(cached, a, a, "euler", 2);
    float out[N];
    uint64_t before = fake->download_bytes;
    sample(&j, NULL, false, out);
    CHECK(fake->download_bytes - before > N * sizeof *out); /* it looks into features */
    graft_cond_release(longer);
    graft_cond_release(a);
    graft_model_release(cached);
    graft_model_release(m);
    graft_engine_destroy(g);
}

/* ------------------------------------------------------------------ copies and waits */

typedef struct seen {
    uint64_t previews, steps, last, total;
    uint64_t sum; /* of the previews' colours */
} seen;

static void on_preview(void *ctx, const uint8_t *rgb, int width, int height)
{
    seen *s = ctx;
    s->previews++;
    CHECK_INT(width, PLACE);
    CHECK_INT(height, PLACE);
    for (int i = 0; i < 3 * width * height; i++) s->sum = s->sum * 31 + rgb[i];
}

static void on_progress(void *ctx, uint64_t done, uint64_t total)
{
    seen *s = ctx;
    s->steps++;
    CHECK_INT(done, s->last + 1);
    s->last = done;
    s->total = total;
}

static fake_cuda_state counted(const graft_model *m, const graft_cond *cond, int64_t steps,
                               const graft_task *task)
{
    fake_cuda_state before = *fake, after;
    const job j = job_of(m, cond, cond, "euler_ancestral", steps);
    float out[N];
    sample(&j, task, false, out);
    after = *fake;
    after.uploads -= before.uploads;
    after.upload_bytes -= before.upload_bytes;
    after.downloads -= before.downloads;
    after.waits -= before.waits;
    after.event_waits -= before.event_waits;
    after.allocs -= before.allocs;
    after.captures -= before.captures;
    after.replays -= before.replays;
    return after;
}

/* More steps, and nothing more to or from the host but noise, and previews where they are wanted.
 */
static void steps_stay_on_the_device(void)
{
    graft_engine *g = engine_in("cuda", "bf16");
    graft_model *m = load_model(g, least);
    graft_cond *cond = words(m, WORDS);
    seen s = {0};
    const graft_task plain = {0},
                     watched = {.ctx = &s, .progress = on_progress, .preview = on_preview};
    counted(m, cond, 3, &plain); /* recorded, and all that is kept is there */
    for (int with = SANITIZED; with < 2; with++) {
        const graft_task *task = with ? &watched : &plain;
        s = (seen){0};
        fake_cuda_state few = counted(m, cond, 2, task);
        s = (seen){0};
        fake_cuda_state many = counted(m, cond, MANY, task);
        CHECK_INT(many.uploads, few.uploads + MANY - 2); /* the noise of each step but the last */
        CHECK_INT(many.upload_bytes, few.upload_bytes + (MANY - 2) * N * sizeof(float));
        CHECK_INT(many.downloads, few.downloads + (with ? MANY - 2 : 0));
        CHECK_INT(many.waits, few.waits);
        CHECK(many.event_waits <= few.event_waits + 2 * (MANY - 2)); /* of the step before last */
        CHECK_INT(many.allocs, few.allocs);
        CHECK_INT(many.captures, 0);
        CHECK_INT(many.replays, MANY);
        if (with) {
            CHECK_INT(s.previews, MANY);
            CHECK_INT(s.steps, MANY);
            CHECK_INT(s.total, MANY);
        }
        printf("     %d steps%s: %llu copies to the device, %llu back, %llu waits for all work\n",
               MANY, with ? " and previews" : "", (unsigned long long)many.uploads,
               (unsigned long long)many.downloads, (unsigned long long)many.waits);
    }
    uint64_t colours = s.sum;
    s = (seen){0};
    float out[N];
    const job j = job_of(m, cond, cond, "euler_ancestral", MANY);
    sample(&j, &watched, true, out);
    CHECK_INT(s.previews, MANY);
    CHECK(s.sum == colours);
    graft_cond_release(cond);
    graft_model_release(m);
    graft_engine_destroy(g);
}

typedef struct decoding {
    graft_vae *vae;
    int shown;
} decoding;

static graft_vae *on_vae(void *ctx, const graft_model *m)
{
    (void)m;
    return graft_vae_retain(((decoding *)ctx)->vae);
}

static void on_picture(void *ctx, const uint8_t *rgb, int width, int height)
{
    decoding *d = ctx;
    (void)rgb;
    d->shown++;
    CHECK(width == 4 * PLACE && height == 4 * PLACE);
}

/* Previews that a tiny autoencoder decodes between the steps, on the same device. */
static void decoded_previews(void)
{
    graft_engine *g = engine_in("cuda", "bf16");
    graft_model *m = load_model(g, least);
    graft_cond *cond = words(m, WORDS);
    decoding d = {NULL, 0};
    graft_err e = GRAFT_ERR_INIT;
    float plain[N], watched[N];
    CHECK_OK(graft_vae_load(g, TAESD, NULL, &d.vae, &e), &e);
    const graft_task task = {.ctx = &d, .preview = on_picture, .preview_vae = on_vae};
    const job j = job_of(m, cond, cond, "euler_ancestral", MANY);
    sample(&j, NULL, false, plain);
    sample(&j, &task, false, watched);
    CHECK(memcmp(plain, watched, sizeof plain) == 0);
    CHECK(d.shown >= 2 && d.shown <= MANY);
    CHECK_INT(fake->misuse, 0);
    graft_vae_release(d.vae);
    graft_cond_release(cond);
    graft_model_release(m);
    graft_engine_destroy(g);
}

static bool cancel_third(void *ctx)
{
    return ++*(int *)ctx > 3;
}

/* A run that ends in its middle, and a device that is lost while steps are under way. */
static void ends_early(void)
{
    graft_engine *g = engine_in("cuda", "bf16");
    graft_model *m = load_model(g, least);
    graft_cond *cond = words(m, WORDS);
    graft_latent *from = NULL, *to = NULL;
    graft_err e = GRAFT_ERR_INIT;
    float out[N], again[N];
    const job j = job_of(m, cond, cond, "euler_ancestral", 4);
    for (int i = SANITIZED; i < 2; i++) sample(&j, NULL, false, out);
    CHECK_OK(graft_latent_empty(4, 8 * PLACE, 8 * PLACE, 1, &from, &e), &e);
    int asked = 0;
    const graft_task task = {.ctx = &asked, .cancelled = cancel_third};
    int64_t blocks = fake->live_blocks;
    CHECK_INT(graft_sample(m, &j.p, cond, cond, from, &task, &to, &e), GRAFT_E_CANCEL);
    CHECK_INT(fake->live_blocks, blocks);
    sample(&j, NULL, false, again);
    CHECK(memcmp(out, again, sizeof out) == 0);
    fake->fail_event = 3;
    CHECK_INT(graft_sample(m, &j.p, cond, cond, from, NULL, &to, &e), GRAFT_E_DEVICE);
    CHECK(strstr(e.text, "CUDA_ERROR_FAKE") != NULL);
    if (!strstr(e.text, "CUDA_ERROR_FAKE")) fprintf(stderr, "  it says: %s\n", e.text);
    uint64_t launches = fake->launches;
    CHECK_INT(graft_sample(m, &j.p, cond, cond, from, NULL, &to, &e), GRAFT_E_DEVICE);
    CHECK_INT(fake->launches, launches);
    graft_latent_release(from);
    graft_cond_release(cond);
    graft_model_release(m);
    graft_engine_destroy(g);
}

/* Another graph in the first steps, whose products with matrices of the graph are the device's. */
static void smaller_inside(void)
{
    const graft_downscale_options o = {1, 2, 0, 0.5, true, "bicubic", "bilinear"};
    graft_engine *g = engine_in("cuda", "bf16");
    graft_model *m = load_model(g, FREEU), *with = NULL;
    graft_cond *a = words(m, WORDS);
    graft_err e = GRAFT_ERR_INIT;
    float plain[N], small[N];
    CHECK_OK(graft_model_downscale(m, &o, &with, &e), &e);
    job j = job_of(m, a, a, "euler", 2);
    sample(&j, NULL, false, plain);
    j = job_of(with, a, a, "euler", 2);
    both_ways(&j);
    sample(&j, NULL, false, small);
    CHECK(memcmp(small, plain, sizeof small) != 0);
    graft_cond_release(a);
    graft_model_release(with);
    graft_model_release(m);
    graft_engine_destroy(g);
}

/* ------------------------------------------------------------------ prompts with hooks */

/* A LoRA of the network's self-attention. */
static const char *write_lora(const graft_model *m)
{
    const char *path = temp_path("hook.safetensors"), *prefix = graft_weights_prefix(m->weights);
    const graft_safetensors *f = graft_weights_file(m->weights);
    made_file *lora = calloc(1, sizeof *lora);
    for (size_t i = 0; i < graft_safetensors_count(f); i++) {
        const graft_st_tensor *t = graft_safetensors_at(f, i);
        const char *end = strstr(t->name, "attn1.to_q.weight");
        char stem[300];
        if (!end || t->rank != 2) continue;
        const char *own = t->name + strlen(prefix);
        snprintf(stem, sizeof stem, "unet.%.*sattn1.to_q", (int)(end - own), own);
        add_lora_pair(lora, stem, t->shape[0], t->shape[1]);
    }
    CHECK(lora->n > 0);
    write_file(lora, path, NULL);
    return path;
}

static void take_latent(void *ctx, const float *x, const int64_t shape[4])
{
    (void)ctx, (void)x, (void)shape;
}

/* Batches with weights of their own, which change on the way, stay there as well, and are what a
 * loader makes. */
static void prompts_with_hooks(void)
{
    const graft_keyframe list[] = {{0, 1}, {0.5, -2}};
    graft_engine *g = engine_in("cuda", "f32");
    graft_model *m = load_model(g, FREEU), *with = NULL;
    const char *path = write_lora(m);
    const graft_task looked_at = {.latent = take_latent};
    graft_keyframes *k = NULL;
    graft_hooks *h = NULL, *changing = NULL;
    graft_cond *a = words(m, WORDS), *always = NULL, *late = NULL;
    graft_err e = GRAFT_ERR_INIT;
    float plain[N], want[N], got[N], host[N];
    CHECK_OK(graft_hooks_lora(NULL, path, 3, 0, NULL, &h, &e), &e);
    CHECK_OK(graft_keyframes_add(NULL, list, 2, &k, &e), &e);
    CHECK_OK(graft_hooks_schedule(h, k, &changing, &e), &e);
    CHECK_OK(graft_cond_hooks(a, h, &always, &e), &e);
    CHECK_OK(graft_cond_hooks(a, changing, &late, &e), &e);
    CHECK_OK(graft_lora_apply(m, NULL, path, 3, 0, NULL, &with, NULL, &e), &e);
    job j = job_of(m, a, a, "euler", 3);
    sample(&j, NULL, false, plain);
    j = job_of(with, a, a, "euler", 3);
    sample(&j, NULL, false, want);
    j = job_of(m, always, always, "euler", 3);
    sample(&j, NULL, false, got);
    CHECK(memcmp(want, got, sizeof got) == 0 && memcmp(plain, got, sizeof got) != 0);
    j = job_of(m, late, a, "euler", 3);
    const uint64_t before = fake->download_bytes;
    sample(&j, NULL, false, got);
    CHECK_INT(fake->download_bytes - before, sizeof got);
    sample(&j, &looked_at, false, host);
    CHECK(memcmp(host, got, sizeof got) == 0 && memcmp(want, got, sizeof got) != 0);
    graft_cond_release(a);
    graft_cond_release(always);
    graft_cond_release(late);
    graft_hooks_release(h);
    graft_hooks_release(changing);
    graft_keyframes_release(k);
    graft_model_release(with);
    graft_model_release(m);
    graft_engine_destroy(g);
    remove(path);
}

int main(void)
{
    if (!open_fake()) return test_end();
    snprintf(least, sizeof least, "%s", temp_path("least.safetensors"));
    snprintf(least_xl, sizeof least_xl, "%s", temp_path("least-xl.safetensors"));
    write_least(least, 0);
    write_least(least_xl, 40);
    RUN(every_sampler);
    RUN(bits_of_the_host);
    RUN(all_that_predicts);
    RUN(several_prompts);
    RUN(masks_and_rescaling);
    RUN(differential_masks);
    RUN(perturbed_attention);
    RUN(flows);
    RUN(counted_prompts);
    RUN(pictures_beside);
    RUN(factors_of_freeu);
    RUN(smaller_inside);
    RUN(prompts_with_hooks);
    RUN(stored_features);
    RUN(steps_stay_on_the_device);
    RUN(decoded_previews);
    RUN(ends_early);
    remove(least);
    remove(least_xl);
    return close_fake();
}
