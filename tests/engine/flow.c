/* Flows: runs of a transformer held against their definition in double, what is left of the noise,
 * masks, samplers that add noise, and what does not go with such a network. */
#include <math.h>

#include "base/alloc.h"
#include "engine/denoise/sample.h"
#include "tests/engine/fixture.h"

#define NET GRAFT_SOURCE_DIR "/golden/small/mmdit_sd35m.safetensors"

enum { C = 16, H = 6, W = 8, N = C * H * W, WORDS = 5, STEPS = 4, SEED = 11 };

static graft_engine *engine;

static graft_cond *make_cond(const graft_model *m, uint64_t seed)
{
    graft_err e = GRAFT_ERR_INIT;
    graft_cond *out = NULL;
    int64_t n = WORDS * m->arch.context_dim, pooled = m->arch.adm_channels;
    float *data = graft_malloc_array((size_t)n, sizeof *data);
    float *y = graft_malloc_array((size_t)pooled, sizeof *y);
    for (int64_t i = 0; i < n; i++) data[i] = fixed_value(seed * 1000 + (uint64_t)i);
    for (int64_t i = 0; i < pooled; i++) y[i] = fixed_value(seed * 7000 + (uint64_t)i);
    CHECK_OK(graft_cond_create(WORDS, m->arch.context_dim, data, pooled, y, NULL, &out, &e), &e);
    return out;
}

static graft_latent *make_latent(void)
{
    graft_err e = GRAFT_ERR_INIT;
    graft_latent *out = NULL;
    float x[N];
    for (int i = 0; i < N; i++) x[i] = fixed_value(90000 + (uint64_t)i);
    CHECK_OK(graft_latent_from_data(x, (const int64_t[]){1, C, H, W}, &out, &e), &e);
    return out;
}

/* ------------------------------------------------------------------ runs */

typedef struct scene {
    graft_model *m;
    graft_cond *positive, *negative;
    graft_latent *from;
} scene;

static scene open_scene(void)
{
    scene s = {.m = load_model(engine, NET), .from = make_latent()};
    s.positive = make_cond(s.m, 1);
    s.negative = make_cond(s.m, 2);
    return s;
}

static void close_scene(scene *s)
{
    graft_cond_release(s->positive);
    graft_cond_release(s->negative);
    graft_latent_release(s->from);
    graft_model_release(s->m);
}

static graft_status sample(const scene *s, const char *sampler, const float *sigma, size_t n,
                           bool add_noise, const graft_latent *from,
                           const graft_sampler_options *options, graft_latent **out, graft_err *e)
{
    graft_sigmas *sigmas = NULL;
    graft_status st = graft_sigmas_from_data(sigma, n, &sigmas, e);
    graft_sampling all = {.model = s->m,
                          .positive = s->positive,
                          .negative = s->negative,
                          .cfg = 3,
                          .sampler = sampler,
                          .sigmas = sigmas,
                          .add_noise = add_noise,
                          .seed = SEED};
    if (options) all.options = *options;
    if (!st) st = graft_sample_custom(&all, from, NULL, out, NULL, e);
    graft_sigmas_release(sigmas);
    return st;
}

static graft_latent *sampled(const scene *s, const char *sampler, const float *sigma, size_t n,
                             bool add_noise, const graft_latent *from)
{
    graft_err e = GRAFT_ERR_INIT;
    graft_latent *out = NULL;
    CHECK_OK(sample(s, sampler, sigma, n, add_noise, from, NULL, &out, &e), &e);
    return out;
}

/* What the network makes of a state: x - sigma v, by both prompts and guidance. */
static void denoised(const scene *s, const double *x, double sigma, double *out)
{
    graft_err e = GRAFT_ERR_INIT;
    graft_binding *b = NULL;
    float in[N], v[2][N], t = (float)(1000 * sigma);
    const graft_cond *const list[2] = {s->positive, s->negative};
    for (int i = 0; i < N; i++) in[i] = (float)x[i];
    CHECK_OK(graft_model_bind(s->m, 1, H, W, WORDS, NULL, &b, &e), &e);
    for (int k = 0; k < 2; k++) {
        const graft_cond_entry *c = list[k]->entry[0];
        CHECK_OK(graft_exe_run(b, engine->arenas, (const void *[]){in, &t, c->data, c->pooled},
                               (void *[]){v[k]}, NULL, NULL, &e),
                 &e);
    }
    for (int i = 0; i < N; i++) {
        double positive = x[i] - sigma * (double)v[0][i], negative = x[i] - sigma * (double)v[1][i];
        out[i] = negative + 3 * (positive - negative);
    }
    graft_binding_release(b);
}

/* Euler's steps from noise and a latent, with a mask or without (NULL), in the network's scale. */
static void by_hand(const scene *s, const float *sigma, int steps, const float *mask, double *x)
{
    graft_err e = GRAFT_ERR_INIT;
    const double scale = s->m->scale_factor, shift = s->m->latent_shift;
    double latent[N], seen[N], d[N];
    float noise[N];
    int64_t shape[4];
    const float *from = graft_latent_data(s->from, shape);
    CHECK_OK(graft_noise_latent(SEED, shape, NULL, noise, &e), &e);
    for (int i = 0; i < N; i++) {
        latent[i] = ((double)from[i] - shift) * scale;
        x[i] = (1 - sigma[0]) * latent[i] + (double)sigma[0] * (double)noise[i];
    }
    for (int k = 0; k < steps; k++) {
        double now = sigma[k], next = sigma[k + 1];
        for (int i = 0; i < N; i++) {
            double m = mask ? mask[i % (H * W)] : 1;
            seen[i] = m * x[i] + (1 - m) * ((1 - now) * latent[i] + now * (double)noise[i]);
        }
        denoised(s, seen, now, d);
        for (int i = 0; i < N; i++) {
            double m = mask ? mask[i % (H * W)] : 1;
            double to = m * d[i] + (1 - m) * latent[i];
            x[i] = to + (x[i] - to) / now * next;
        }
    }
    for (int i = 0; i < N; i++) x[i] = x[i] / scale + shift;
}

static double worst(const graft_latent *l, const double *wanted)
{
    int64_t shape[4];
    const float *got = graft_latent_data(l, shape);
    double most = 0;
    CHECK_INT(shape[0] * shape[1] * shape[2] * shape[3], N);
    for (int i = 0; i < N; i++) {
        double d = fabs((double)got[i] - wanted[i]);
        if (!(d <= most)) most = d;
    }
    return most;
}

static void euler_by_hand(void)
{
    static const float whole[STEPS + 1] = {1, 0.9f, 0.75f, 0.5f, 0};
    static const float part[3] = {0.6f, 0.3f, 0};
    scene s = open_scene();
    double wanted[N];
    CHECK(s.m->latent_shift != 0 && s.m->scale_factor != 1);
    by_hand(&s, whole, STEPS, NULL, wanted);
    graft_latent *l = sampled(&s, "euler", whole, STEPS + 1, true, s.from);
    CHECK(worst(l, wanted) < 2e-5);
    graft_latent_release(l);
    by_hand(&s, part, 2, NULL, wanted);
    l = sampled(&s, "euler", part, 3, true, s.from);
    CHECK(worst(l, wanted) < 2e-5);
    graft_latent_release(l);
    close_scene(&s);
}

static void masked(void)
{
    static const float sigma[4] = {0.8f, 0.5f, 0.2f, 0};
    graft_err e = GRAFT_ERR_INIT;
    scene s = open_scene();
    double wanted[N];
    float mask[H * W];
    graft_image *image = NULL;
    graft_latent *with = NULL;
    for (int i = 0; i < H * W; i++) mask[i] = i % W < 2 ? 0.0f : i % W == 2 ? 0.5f : 1.0f;
    CHECK_OK(graft_image_from_data(mask, (const int64_t[]){1, H, W, 1}, true, &image, &e), &e);
    CHECK_OK(graft_latent_set_mask(s.from, image, &with, &e), &e);
    by_hand(&s, sigma, 3, mask, wanted);
    graft_latent *l = sampled(&s, "euler", sigma, 4, true, with);
    CHECK(worst(l, wanted) < 2e-5);
    graft_latent_release(l);
    graft_latent_release(with);
    graft_image_release(image);
    close_scene(&s);
}

/* What the network makes of a part of the noise, x - v at sigma 1; -> (C, high, wide). */
static void predicted(const scene *s, const graft_cond *cond, const float *noise, const int box[4],
                      double *out)
{
    graft_err e = GRAFT_ERR_INIT;
    graft_binding *b = NULL;
    float in[N], v[N], t = 1000;
    const int area = box[2] * box[3];
    for (int i = 0; i < C * area; i++)
        in[i] = noise[i / area * H * W + (box[0] + i % area / box[3]) * W + box[1] + i % box[3]];
    CHECK_OK(graft_model_bind(s->m, 1, box[2], box[3], WORDS, NULL, &b, &e), &e);
    const graft_cond_entry *c = cond->entry[0];
    CHECK_OK(graft_exe_run(b, engine->arenas, (const void *[]){in, &t, c->data, c->pooled},
                           (void *[]){v}, NULL, NULL, &e),
             &e);
    for (int i = 0; i < C * area; i++) out[i] = (double)in[i] - (double)v[i];
    graft_binding_release(b);
}

/* The bounds of a mask of odd sides: the network sees whole squares of its patches, and the prompt
 * counts where it was put; so does the other side's, which it is compared with there. */
static void odd_places(void)
{
    static const int whole[4] = {0, 0, H, W}, seen[2][4] = {{1, 2, 4, 6}, {2, 2, 4, 6}};
    static const int inside[2][4] = {{1, 2, 3, 5}, {3, 3, 3, 5}};
    static const float sigma[2] = {1, 0};
    graft_err e = GRAFT_ERR_INIT;
    scene s = open_scene();
    graft_cond *background = s.negative, *thing = s.positive;
    for (int k = 0; k < 2; k++) {
        double back[N], part[N], other[N], wanted[N];
        float noise[N], mask[H * W] = {0};
        graft_image *image = NULL;
        graft_cond *placed = NULL;
        for (int i = 0; i < inside[k][2] * inside[k][3]; i++)
            mask[(inside[k][0] + i / inside[k][3]) * W + inside[k][1] + i % inside[k][3]] = 1;
        CHECK_OK(graft_image_from_data(mask, (const int64_t[]){1, H, W, 1}, true, &image, &e), &e);
        CHECK_OK(graft_cond_mask(thing, image, 1, true, &placed, &e), &e);
        CHECK_OK(graft_cond_combine(placed, background, &s.positive, &e), &e);
        CHECK_OK(graft_noise_latent(SEED, (const int64_t[]){1, C, H, W}, NULL, noise, &e), &e);
        predicted(&s, background, noise, whole, back);
        predicted(&s, thing, noise, seen[k], part);
        predicted(&s, background, noise, seen[k], other);
        for (int i = 0; i < N; i++) {
            int y = i / W % H - seen[k][0], x = i % W - seen[k][1];
            int at = (i / (H * W) * seen[k][2] + y) * seen[k][3] + x;
            bool in = mask[i % (H * W)] != 0;
            double negative = in ? (back[i] + other[at]) / 2 : back[i];
            double more = in ? (part[at] - other[at]) / 2 : 0;
            wanted[i] = (negative + 3 * more) / s.m->scale_factor + s.m->latent_shift;
        }
        graft_latent *l = sampled(&s, "euler", sigma, 2, true, s.from);
        CHECK(worst(l, wanted) < 2e-5);
        graft_latent_release(l);
        graft_cond_release(s.positive);
        graft_cond_release(placed);
        graft_image_release(image);
    }
    s.positive = thing;
    close_scene(&s);
}

/* A run in two parts: what the first leaves is the latent and its noise, and the second goes on
 * from there without any of its own. */
static void in_two_parts(void)
{
    static const char *const samplers[] = {"euler", "heun"};
    static const float sigma[STEPS + 1] = {0.95f, 0.8f, 0.6f, 0.3f, 0};
    scene s = open_scene();
    for (size_t i = 0; i < 2; i++) {
        double wanted[N];
        int64_t shape[4];
        graft_latent *whole = sampled(&s, samplers[i], sigma, STEPS + 1, true, s.from);
        graft_latent *first = sampled(&s, samplers[i], sigma, 3, true, s.from);
        graft_latent *second = sampled(&s, samplers[i], sigma + 2, 3, false, first);
        const float *data = graft_latent_data(whole, shape);
        for (int k = 0; k < N; k++) wanted[k] = (double)data[k];
        CHECK(worst(second, wanted) < 1e-4);
        CHECK(worst(first, wanted) > 0.1);
        graft_latent_release(whole);
        graft_latent_release(first);
        graft_latent_release(second);
    }
    close_scene(&s);
}

/* ------------------------------------------------------------------ samplers */

static bool finite_all(const graft_latent *l)
{
    int64_t shape[4];
    const float *x = graft_latent_data(l, shape);
    for (int i = 0; i < N; i++)
        if (!isfinite(x[i]) || fabsf(x[i]) > 100) return false;
    return true;
}

static void every_sampler(void)
{
    static const float sigma[STEPS + 1] = {1, 0.9f, 0.7f, 0.4f, 0};
    scene s = open_scene();
    for (const char *const *name = graft_sampler_names(); *name; name++) {
        graft_latent *a = sampled(&s, *name, sigma, STEPS + 1, true, s.from);
        graft_latent *b = sampled(&s, *name, sigma, STEPS + 1, true, s.from);
        int64_t shape[4];
        bool same = memcmp(graft_latent_data(a, shape), graft_latent_data(b, shape),
                           N * sizeof(float)) == 0;
        CHECK(finite_all(a) && same);
        if (!finite_all(a) || !same) fprintf(stderr, "%s\n", *name);
        graft_latent_release(a);
        graft_latent_release(b);
    }
    close_scene(&s);
}

/* A second-order step over nearly all of the schedule, and sigmas that end at all noise. */
static void long_steps(void)
{
    static const char *const samplers[] = {"euler", "dpm_2", "dpm_2_ancestral", "dpmpp_sde"};
    static const float down[3] = {1, 0.005f, 0}, up[3] = {0.05f, 0.6f, 1};
    scene s = open_scene();
    for (size_t i = 0; i < sizeof samplers / sizeof *samplers; i++) {
        graft_latent *a = sampled(&s, samplers[i], down, 3, true, s.from);
        CHECK(finite_all(a));
        if (!finite_all(a)) fprintf(stderr, "%s\n", samplers[i]);
        graft_latent_release(a);
    }
    graft_latent *l = sampled(&s, "euler", up, 3, false, s.from);
    graft_latent *m = sampled(&s, "euler_cfg_pp", up, 3, false, s.from);
    CHECK(finite_all(l) && finite_all(m));
    graft_latent_release(l);
    graft_latent_release(m);
    close_scene(&s);
}

/* Without noise of its own it is euler, but for a start that is a little below 1. */
static void quiet_ancestor(void)
{
    static const float sigma[2][STEPS + 1] = {{0.96f, 0.9f, 0.7f, 0.4f, 0},
                                              {1, 0.9f, 0.7f, 0.4f, 0}};
    static const double limit[2] = {2e-5, 2e-2};
    const graft_sampler_options quiet = {
        .given = true, .eta = 0, .s_noise = 1, .r = 0.5, .order = 4};
    graft_err e = GRAFT_ERR_INIT;
    scene s = open_scene();
    for (int i = 0; i < 2; i++) {
        double wanted[N];
        int64_t shape[4];
        graft_latent *l = NULL, *plain = sampled(&s, "euler", sigma[i], STEPS + 1, true, s.from);
        const float *data = graft_latent_data(plain, shape);
        for (int k = 0; k < N; k++) wanted[k] = (double)data[k];
        CHECK_OK(sample(&s, "euler_ancestral", sigma[i], STEPS + 1, true, s.from, &quiet, &l, &e),
                 &e);
        CHECK(worst(l, wanted) < limit[i]);
        graft_latent_release(l);
        l = sampled(&s, "euler_ancestral", sigma[i], STEPS + 1, true, s.from);
        CHECK(worst(l, wanted) > 0.05);
        graft_latent_release(l);
        graft_latent_release(plain);
    }
    close_scene(&s);
}

/* dpm_adaptive that may add noise takes states for latent + s noise, too: one step, which is the
 * midpoint method from s = 9 to s = 1 in its logarithm, and ends where no noise is left to add. */
static void adaptive_step(void)
{
    static const float sigma[2] = {0.9f, 0.5f};
    const graft_sampler_options o = {
        .given = true,
        .eta = 1,
        .s_noise = 1,
        .r = 0.5,
        .order = 2,
        .adaptive = {.rtol = 0.05, .atol = 0.0078, .h_init = 100, .icoeff = 1}};
    graft_err e = GRAFT_ERR_INIT;
    scene s = open_scene();
    const double scale = s.m->scale_factor, shift = s.m->latent_shift;
    double x[N], y[N], eps[N], d[N], wanted[N];
    float noise[N];
    int64_t shape[4];
    graft_latent *l = NULL;
    const float *from = graft_latent_data(s.from, shape);
    CHECK_OK(graft_noise_latent(SEED, shape, NULL, noise, &e), &e);
    for (int i = 0; i < N; i++) {
        y[i] = ((double)from[i] - shift) * scale + 9 * (double)noise[i];
        x[i] = y[i] / 10;
    }
    denoised(&s, x, 0.9, d);
    for (int i = 0; i < N; i++) {
        eps[i] = (y[i] - d[i]) / 9;
        x[i] = (y[i] + (3 - 9) * eps[i]) / 4; /* at s = 3 */
    }
    denoised(&s, x, 0.75, d);
    for (int i = 0; i < N; i++)
        wanted[i] = (y[i] + (1 - 9) * (4 * x[i] - d[i]) / 3) / scale + shift;
    CHECK_OK(sample(&s, "dpm_adaptive", sigma, 2, true, s.from, &o, &l, &e), &e);
    CHECK(worst(l, wanted) < 2e-4);
    graft_latent_release(l);
    close_scene(&s);
}

/* ------------------------------------------------------------------ the rest */

static void shifts(void)
{
    static const double bad[] = {0, -1, 1e-9, 100.5, INFINITY, NAN};
    graft_err e = GRAFT_ERR_INIT;
    graft_model *m = load_model(engine, NET), *n = NULL;
    graft_sigma_table t;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        CHECK_INT(graft_model_sampling_flow(m, bad[i], i % 2, &n, &e), GRAFT_E_ARG);
    CHECK(!n);
    graft_model_sigma_table(m, &t);
    CHECK(t.sigma[t.count - 1] == 1 && fabs((double)t.sigma[499] - 0.75) < 1e-6);
    CHECK(graft_sigma_to_timestep(&t, 0.25f) == 250);
    CHECK_OK(graft_model_sampling_flow(m, 1, false, &n, &e), &e);
    graft_model_sigma_table(n, &t);
    CHECK(t.count == 1000 && fabs((double)t.sigma[499] - 0.5) < 1e-6);
    graft_model_release(n);
    CHECK_OK(graft_model_sampling_flow(m, 3, true, &n, &e), &e);
    graft_model_sigma_table(n, &t);
    CHECK(t.count == 10000 && fabs((double)t.sigma[4999] - 0.75) < 1e-6);
    CHECK(fabs((double)t.sigma[0] - 3e-4 / 1.0002) < 1e-9 && t.sigma[9999] == 1);
    CHECK(graft_sigma_to_timestep(&t, 0.25f) == 250);
    graft_model_release(n);
    for (int i = 1; i <= 10000; i++) { /* what is all noise is in the range that begins there */
        graft_sigma_table_init_flow(&t, i / 100.0, GRAFT_SCHEDULE_STEPS);
        bool top = t.sigma[t.count - 1] <= 1 && t.sigma[t.count - 1] > 0.9999f;
        CHECK(top && graft_sigma_in_range(&t, 0, 1, t.sigma[t.count - 1]));
    }
    graft_model_release(m);
}

static void refused_with(graft_status st, const graft_err *e, const char *word)
{
    CHECK_INT(st, GRAFT_E_UNSUPPORTED);
    CHECK(strstr(e->text, word) != NULL);
    if (!strstr(e->text, word)) fprintf(stderr, "%s: %s\n", word, e->text);
}

static void refusals(void)
{
    graft_err e = GRAFT_ERR_INIT;
    scene s = open_scene();
    graft_model *out = NULL;
    const graft_deepcache_options deep = {
        .cache_interval = 3, .end_step = 1000, .schedule = "uniform"};
    const graft_freeu_options freeu = {GRAFT_FREEU_V1, 1.1, 1.2, 0.9, 0.2};
    const graft_hypertile_options tiles = {256, 2, 0, false};
    const graft_downscale_options down = {.block_number = 1, .factor = 2, .end = 0.3};
    refused_with(graft_model_deepcache(s.m, &deep, &out, &e), &e, "DeepCache");
    refused_with(graft_model_freeu(s.m, &freeu, &out, &e), &e, "FreeU");
    refused_with(graft_model_hypertile(s.m, &tiles, &out, &e), &e, "HyperTile");
    refused_with(graft_model_merge_tokens(s.m, 0.3, &out, &e), &e, "TomePatchModel");
    refused_with(graft_model_perturbed_attention(s.m, 3, &out, &e), &e, "Perturbed-attention");
    refused_with(graft_model_downscale(s.m, &down, &out, &e), &e, "PatchModelAddDownscale");
    refused_with(graft_model_sampling(s.m, "eps", false, &out, &e), &e, "ModelSamplingSD3");
    CHECK(!out);
    static const float sigma[3] = {1, 0.5f, 0};
    graft_latent *l = NULL;
    graft_model *plain = s.m;
    CHECK_OK(graft_model_rescale_cfg(plain, 0.7, &s.m, &e), &e);
    refused_with(sample(&s, "euler", sigma, 3, true, s.from, NULL, &l, &e), &e, "RescaleCFG");
    graft_model_release(s.m);
    s.m = plain;
    static const float unets[3] = {14.6f, 0.5f, 0};
    CHECK_INT(sample(&s, "euler", unets, 3, true, s.from, NULL, &l, &e), GRAFT_E_ARG);
    CHECK(strstr(e.text, "at most 1") != NULL);
    CHECK(!l);
    close_scene(&s);
}

/* ------------------------------------------------------------------ skipped blocks */

/* The file without some blocks, the others' numbers closed up: what skipping them comes to. The
 * network has its second attention in the first blocks, which stay first. */
static graft_model *without_blocks(const bool *gone, const char *path)
{
    graft_safetensors *f = open_file(NET);
    made_file *all = copy_file(f, "model.diffusion_model."), *left = calloc(1, sizeof *left);
    for (size_t i = 0; i < all->n; i++) {
        const graft_st_tensor *t = &all->tensor[i];
        char name[256];
        int block = 0, n = 0, to = 0;
        snprintf(name, sizeof name, "%s", t->name);
        if (sscanf(t->name, "model.diffusion_model.joint_blocks.%d.%n", &block, &n) == 1 && n) {
            if (gone[block]) continue;
            for (int k = 0; k < block; k++) to += !gone[k];
            snprintf(name, sizeof name, "model.diffusion_model.joint_blocks.%d.%s", to,
                     t->name + n);
        }
        add_tensor(left, name, t->rank, t->shape, t->data, 0);
    }
    finish_file(all);
    write_file(left, path, graft_safetensors_metadata(f, "config"));
    graft_safetensors_close(f);
    graft_model *m = load_model(engine, path);
    unlink(path);
    return m;
}

/* Rows of a batch of three, of which the first two are computed a second time. */
static void skipped_rows(void)
{
    static const struct {
        const char *layers;
        bool gone[4];
    } cases[] = {{"1", {false, true, false, false}},
                 {"blocks 1 and 2; 99", {false, true, true, false}},
                 {"0, 2", {true, false, true, false}}};
    enum { ROWS = 3, AGAIN = 2 };
    graft_err e = GRAFT_ERR_INIT;
    graft_model *m = load_model(engine, NET);
    const size_t words = (size_t)(WORDS * m->arch.context_dim),
                 pooled = (size_t)m->arch.adm_channels;
    float *x = calloc(ROWS * N, sizeof *x), t[ROWS] = {900, 500, 20};
    float *c = calloc(ROWS * words, sizeof *c), *y = calloc(ROWS * pooled, sizeof *y);
    float *out = calloc((ROWS + AGAIN) * N, sizeof *out),
          *wanted = calloc(ROWS * N, sizeof *wanted);
    for (size_t i = 0; i < ROWS * N; i++) x[i] = fixed_value(i);
    for (size_t i = 0; i < ROWS * words; i++) c[i] = fixed_value(40000 + i);
    for (size_t i = 0; i < ROWS * pooled; i++) y[i] = fixed_value(80000 + i);
    const void *const in[] = {x, t, c, y};
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        graft_model *skips = NULL,
                    *less = without_blocks(cases[k].gone, temp_path("less.safetensors"));
        graft_unet_use use = {
            .pictures = ROWS, .entries = 1, .height = H, .width = W, .tokens = WORDS};
        graft_binding *b = NULL;
        CHECK_OK(graft_model_skip_layers(m, cases[k].layers, 2, 0, 1, &skips, &e), &e);
        CHECK_OK(graft_model_bind_guided(m, &use, NULL, &b, &e), &e);
        CHECK_OK(graft_exe_run(b, engine->arenas, in, (void *[]){wanted}, NULL, NULL, &e), &e);
        graft_binding_release(b);
        use.perturbed = AGAIN;
        CHECK_OK(graft_model_bind_guided(skips, &use, NULL, &b, &e), &e);
        CHECK_OK(graft_exe_run(b, engine->arenas, in, (void *[]){out}, NULL, NULL, &e), &e);
        graft_binding_release(b);
        CHECK(difference(out, wanted, ROWS * N) < 1e-5);
        CHECK_OK(graft_model_bind(less, AGAIN, H, W, WORDS, NULL, &b, &e), &e);
        CHECK_OK(graft_exe_run(b, engine->arenas, in, (void *[]){wanted}, NULL, NULL, &e), &e);
        graft_binding_release(b);
        CHECK(difference(out + ROWS * N, wanted, AGAIN * N) < 1e-5);
        CHECK(difference(out, wanted, AGAIN * N) > 1e-2);
        graft_model_release(less);
        graft_model_release(skips);
    }
    graft_model_release(m);
    free(x);
    free(c);
    free(y);
    free(out);
    free(wanted);
}

/* Between its shares of the schedule, and only there, D goes further away from the prediction
 * without the block. */
static void skip_guidance(void)
{
    static const float sigmas[] = {0.95f, 0.5f};
    static const bool gone[4] = {false, true, false, false};
    graft_err e = GRAFT_ERR_INIT;
    scene s = open_scene();
    graft_model *plain = s.m, *less = without_blocks(gone, temp_path("less.safetensors"));
    graft_sigma_table table;
    graft_model_sigma_table(plain, &table);
    CHECK_OK(graft_model_skip_layers(plain, "1", 2.5, 0, 0.5, &s.m, &e), &e);
    for (int i = 0; i < 2; i++) {
        double x[N], wanted[N], without[N], own[N];
        float in[N], out[N];
        graft_guided *g = NULL;
        const scene one = {.m = plain, .positive = s.positive, .negative = s.positive};
        const scene other = {.m = less, .positive = s.positive, .negative = s.positive};
        const scene both = {.m = plain, .positive = s.positive, .negative = s.negative};
        const graft_guided_config c = {.model = s.m,
                                       .table = &table,
                                       .positive = s.positive,
                                       .negative = s.negative,
                                       .cfg = 3,
                                       .shape = {1, C, H, W},
                                       .steps = 2};
        for (int k = 0; k < N; k++) x[k] = in[k] = fixed_value(700 + (uint64_t)k);
        denoised(&both, x, (double)sigmas[i], wanted);
        denoised(&one, x, (double)sigmas[i], own);
        denoised(&other, x, (double)sigmas[i], without);
        for (int k = 0; k < N && i == 0; k++) wanted[k] += 2.5 * (own[k] - without[k]);
        CHECK_OK(graft_guided_create(&c, &g, &e), &e);
        graft_denoiser d = graft_guided_denoiser(g);
        CHECK_OK(d.denoise(d.ctx, in, sigmas[i], out, &e), &e);
        double most = 0;
        for (int k = 0; k < N; k++) most = fmax(most, fabs((double)out[k] - wanted[k]));
        CHECK(most < 2e-5);
        graft_guided_destroy(g);
    }
    graft_model_release(less);
    graft_model_release(s.m);
    s.m = plain;
    close_scene(&s);
}

static void bad_layers(void)
{
    graft_err e = GRAFT_ERR_INIT;
    graft_model *m = load_model(engine, NET), *unet = load_model(engine, SD1), *out = NULL;
    CHECK_INT(graft_model_skip_layers(m, "7, 8, 9", 3, 0, 1, &out, &e), GRAFT_E_ARG);
    CHECK(strstr(e.text, "0 to 3") != NULL);
    CHECK_INT(graft_model_skip_layers(m, "", 3, 0, 1, &out, &e), GRAFT_E_ARG);
    CHECK_INT(graft_model_skip_layers(m, "18446744073709551617", 3, 0, 1, &out, &e), GRAFT_E_ARG);
    CHECK_INT(graft_model_skip_layers(m, "1", -1, 0, 1, &out, &e), GRAFT_E_ARG);
    CHECK_INT(graft_model_skip_layers(m, "1", NAN, 0, 1, &out, &e), GRAFT_E_ARG);
    CHECK_INT(graft_model_skip_layers(m, "1", 1, -0.1, 1, &out, &e), GRAFT_E_ARG);
    CHECK_INT(graft_model_skip_layers(unet, "1", 1, 0, 1, &out, &e), GRAFT_E_UNSUPPORTED);
    CHECK(!out);
    graft_model_release(unet);
    graft_model_release(m);
}

/* As many patches as the table has places for, also where the last one is begun only; and more. */
static void sizes(void)
{
    static const int64_t bad[][2] = {{21, 8}, {8, 21}, {22, 8}, {8, 22}};
    static const int64_t good[][2] = {{20, 20}, {19, 20}, {5, 7}};
    graft_err e = GRAFT_ERR_INIT;
    graft_model *m = load_model(engine, NET);
    graft_binding *b = NULL;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        CHECK_INT(graft_model_bind(m, 1, bad[i][0], bad[i][1], WORDS, NULL, &b, &e), GRAFT_E_ARG);
        CHECK(!b && strstr(e.text, "this transformer") != NULL);
    }
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        CHECK_OK(graft_model_bind(m, 1, good[i][0], good[i][1], WORDS, NULL, &b, &e), &e);
        graft_binding_release(b);
        b = NULL;
    }
    graft_model_release(m);
}

/* Other weights run in the graph that is there. */
static void swapped(void)
{
    graft_err e = GRAFT_ERR_INIT;
    const char *path = temp_path("flow.safetensors");
    graft_safetensors *f = open_file(NET);
    made_file *other = copy_file(f, "model.diffusion_model.");
    graft_st_tensor *t = made_find(other, "model.diffusion_model.pos_embed");
    for (uint64_t i = 0; i < t->bytes / sizeof(float); i++) ((float *)t->data)[i] *= 1.5f;
    write_file(other, path, graft_safetensors_metadata(f, "config"));
    graft_safetensors_close(f);
    static const float sigma[3] = {1, 0.5f, 0};
    scene s = open_scene();
    graft_latent *a = sampled(&s, "euler", sigma, 3, true, s.from);
    graft_compiled_stats before, after;
    graft_model *plain = s.m, *direct = load_model(engine, path);
    graft_compiled_stats_get(engine->compiled, &before);
    CHECK_OK(graft_model_swap(plain, path, true, NULL, &s.m, &e), &e);
    graft_latent *b = sampled(&s, "euler", sigma, 3, true, s.from);
    graft_compiled_stats_get(engine->compiled, &after);
    CHECK_INT((int64_t)after.built, (int64_t)before.built);
    graft_model_release(s.m);
    s.m = direct;
    graft_latent *c = sampled(&s, "euler", sigma, 3, true, s.from);
    int64_t shape[4];
    const float *x = graft_latent_data(a, shape), *y = graft_latent_data(b, shape);
    CHECK(memcmp(x, y, N * sizeof *x) != 0);
    CHECK(memcmp(graft_latent_data(c, shape), y, N * sizeof *y) == 0);
    graft_latent_release(a);
    graft_latent_release(b);
    graft_latent_release(c);
    graft_model_release(plain);
    close_scene(&s);
    unlink(path);
}

int main(void)
{
    static const char *const backends[] = {"ref", "cpu"};
    for (size_t i = 0; i < 2; i++) {
        engine = make_engine(backends[i]);
        RUN(euler_by_hand);
        RUN(masked);
        RUN(odd_places);
        RUN(in_two_parts);
        RUN(swapped);
        RUN(skipped_rows);
        RUN(skip_guidance);
        if (i == 1) {
            RUN(every_sampler);
            RUN(long_steps);
            RUN(quiet_ancestor);
            RUN(adaptive_step);
            RUN(shifts);
            RUN(refusals);
            RUN(sizes);
            RUN(bad_layers);
        }
        graft_engine_destroy(engine);
    }
    return test_end();
}
