#include <stdbool.h>

#include "base/alloc.h"
#include "engine/sampling/sampler.h"
#include "tests/sampling/golden.h"
#include "tests/test.h"

#define N 24

static void golden(void)
{
    golden_compare(golden_samplers, "samplers.safetensors");
}

typedef struct model {
    float constant; /* D = constant when `gaussian` is false */
    bool gaussian;  /* data ~ N(0, 1): D = x / (1 + s^2), the ODE's solution is known */
    int calls, fail_at;
} model;

static graft_status denoise(void *ctx, const float *x, float sigma, float *out, graft_err *e)
{
    model *m = ctx;
    if (++m->calls == m->fail_at) return graft_fail(e, GRAFT_E_CANCEL, "stopped");
    for (int i = 0; i < N; i++) out[i] = m->gaussian ? x[i] / (1 + sigma * sigma) : m->constant;
    return GRAFT_OK;
}

static graft_status denoise_pair(void *ctx, const float *x, float sigma, float *out, float *u,
                                 graft_err *e)
{
    graft_status st = denoise(ctx, x, sigma, out, e);
    if (st == GRAFT_OK) memcpy(u, out, N * sizeof *u);
    return st;
}

typedef struct progress {
    size_t calls, total;
} progress;

static void count_step(void *ctx, size_t i, size_t total, const float *x, const float *denoised)
{
    progress *p = ctx;
    CHECK(i == p->calls);
    CHECK(x && denoised);
    p->calls++;
    p->total = total;
}

/* Sigmas 10 ... 0.03 in equal steps of the logarithm, then 0. */
static void make_sigmas(float *sigma, size_t steps)
{
    for (size_t i = 0; i < steps; i++)
        sigma[i] = (float)(10 * pow(0.003, steps > 1 ? (double)i / (double)(steps - 1) : 0));
    sigma[steps] = 0;
}

static graft_status run(const char *name, model *m, const float *sigmas, size_t n_sigmas, float *x,
                        progress *p, bool silent)
{
    graft_rng rng;
    graft_rng_seed(&rng, 4);
    graft_noise_source noise = graft_noise_plain(&rng);
    graft_denoiser d = {m, denoise, denoise_pair};
    graft_sampler_run r = {.denoiser = &d,
                           .noise = &noise,
                           .sigmas = sigmas,
                           .n_sigmas = n_sigmas,
                           .x = x,
                           .n = N,
                           .batch = 1,
                           .noise_from_sigma = silent ? 0 : 5,
                           .noise_to_sigma = silent ? 0 : 0.3f,
                           .step_ctx = p,
                           .step = p ? count_step : NULL};
    return graft_sampler_run_named(name, &r, NULL);
}

static void list_and_flags(void)
{
    CHECK_STR(graft_sampler_list()[0], "euler");
    CHECK(graft_sampler_known("ddim") && !graft_sampler_known("ddim_gpu"));
    CHECK(graft_sampler_is_sde("dpmpp_2m_sde") && !graft_sampler_is_sde("dpmpp_2m"));
    CHECK(graft_sampler_discards_penultimate("uni_pc") &&
          graft_sampler_discards_penultimate("dpm_2"));
    CHECK(!graft_sampler_discards_penultimate("euler") && !graft_sampler_discards_penultimate("x"));
    CHECK(graft_sampler_needs_unconditional("euler_cfg_pp"));
    CHECK(!graft_sampler_needs_unconditional("euler"));
    float x[N] = {0}, sigma[2] = {1, 0};
    CHECK_INT(run("nothing", &(model){0}, sigma, 2, x, NULL, false), GRAFT_E_NOTFOUND);
}

/* ComfyUI's names for noise that is drawn where the latents are give what the others give. */
static void names_of_a_gpu(void)
{
    static const char *const of[] = {"dpmpp_sde", "dpmpp_2m_sde", "dpmpp_2m_sde_heun",
                                     "dpmpp_3m_sde"};
    float sigma[7], x[2][N];
    make_sigmas(sigma, 6);
    for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
        char name[40];
        snprintf(name, sizeof name, "%s_gpu", of[i]);
        CHECK(graft_sampler_known(name) && graft_sampler_is_sde(name));
        for (int k = 0; k < 2; k++) {
            model m = {.constant = 0.7f};
            for (int j = 0; j < N; j++) x[k][j] = 10 * sinf((float)j);
            CHECK_INT(run(k ? name : of[i], &m, sigma, 7, x[k], NULL, false), GRAFT_OK);
        }
        CHECK(memcmp(x[0], x[1], sizeof x[0]) == 0);
    }
}

static void a_constant_is_reached(void)
{
    static const size_t steps[] = {1, 2, 3, 4, 7, 20, 1000};
    static float sigma[1001];
    for (const char *const *name = graft_sampler_list(); *name; name++)
        for (size_t k = 0; k < sizeof steps / sizeof *steps; k++) {
            if (strncmp(*name, "uni_pc", 6) == 0 && steps[k] == 1) continue;
            float x[N];
            double worst = 0;
            model m = {.constant = 0.7f};
            progress p = {0};
            make_sigmas(sigma, steps[k]);
            for (int i = 0; i < N; i++) x[i] = 10 * sinf((float)i);
            CHECK_INT(run(*name, &m, sigma, steps[k] + 1, x, &p, false), GRAFT_OK);
            for (int i = 0; i < N; i++) worst = fmax(worst, fabs(x[i] - 0.7));
            /* DPM-Solver stops at the last sigma above 0; UniPC at 0.001. */
            bool solver = strcmp(*name, "dpm_fast") == 0 || strcmp(*name, "dpm_adaptive") == 0;
            double limit = solver ? 1.08 * sigma[steps[k] - 1] : 0.0011;
            CHECK(worst <= limit);
            if (!(worst <= limit)) fprintf(stderr, "  %s, %zu: %g\n", *name, steps[k], worst);
            if (!solver) CHECK_INT(p.calls, steps[k]);
        }
}

/* x = x0 sqrt((1 + s^2) / (1 + s0^2)) solves the ODE of Gaussian data. */
static double gaussian_error(const char *name, size_t steps)
{
    static float sigma[1001];
    float x[N];
    double worst = 0;
    model m = {.gaussian = true};
    make_sigmas(sigma, steps);
    for (int i = 0; i < N; i++) x[i] = (float)(i - N / 2);
    CHECK_INT(run(name, &m, sigma, steps, x, NULL, true), GRAFT_OK);
    double s = sigma[steps - 1], factor = sqrt((1 + s * s) / 101);
    for (int i = 0; i < N; i++) worst = fmax(worst, fabs(x[i] - (i - N / 2) * factor));
    return worst;
}

static void more_steps_are_closer(void)
{
    static const char *const ode[] = {"euler",
                                      "euler_cfg_pp",
                                      "heun",
                                      "dpm_2",
                                      "lms",
                                      "dpm_fast",
                                      "dpmpp_2m",
                                      "ipndm",
                                      "ipndm_v",
                                      "res_multistep",
                                      "res_multistep_cfg_pp",
                                      "sa_solver",
                                      "sa_solver_pece",
                                      "uni_pc",
                                      "uni_pc_bh2",
                                      "ddim",
                                      "dpmpp_2m_cfg_pp"};
    for (size_t i = 0; i < sizeof ode / sizeof *ode; i++) {
        double coarse = gaussian_error(ode[i], 21), fine = gaussian_error(ode[i], 161);
        CHECK(fine < coarse / 4 || fine < 2e-6);
        CHECK(fine < 0.05);
        if (!(fine < coarse / 4 || fine < 2e-6))
            fprintf(stderr, "  %s: %g, then %g\n", ode[i], coarse, fine);
    }
    CHECK(gaussian_error("dpm_adaptive", 21) < 0.05);
}

/* The state of Gaussian data keeps the variance 1 + s^2, whatever noise a solver of the SDE adds.
 */
static void noise_has_the_right_size(void)
{
    static const char *const sde[] = {"euler_ancestral",
                                      "dpm_2_ancestral",
                                      "dpmpp_2s_ancestral",
                                      "dpmpp_2s_ancestral_cfg_pp",
                                      "dpmpp_sde",
                                      "dpmpp_2m_sde",
                                      "dpmpp_2m_sde_heun",
                                      "dpmpp_3m_sde",
                                      "ddpm",
                                      "res_multistep_ancestral",
                                      "er_sde",
                                      "seeds_2",
                                      "seeds_3",
                                      "sa_solver",
                                      "sa_solver_pece"};
    static float sigma[201];
    for (size_t k = 0; k < sizeof sde / sizeof *sde; k++) {
        double sum = 0;
        const int runs = 100;
        make_sigmas(sigma, 100);
        for (int seed = 0; seed < runs; seed++) {
            float x[N];
            graft_rng rng;
            graft_rng_seed(&rng, (uint64_t)seed);
            graft_rng_randn(&rng, x, N);
            for (int i = 0; i < N; i++) x[i] *= sqrtf(101);
            graft_noise_source noise = graft_noise_plain(&rng);
            model m = {.gaussian = true};
            graft_denoiser d = {&m, denoise, denoise_pair};
            graft_sampler_run r = {.denoiser = &d,
                                   .noise = &noise,
                                   .sigmas = sigma,
                                   .n_sigmas = 101,
                                   .x = x,
                                   .n = N,
                                   .noise_from_sigma = 5,
                                   .noise_to_sigma = 0.3f};
            CHECK_INT(graft_sampler_run_named(sde[k], &r, NULL), GRAFT_OK);
            for (int i = 0; i < N; i++) sum += (double)x[i] * x[i];
        }
        double variance = sum / (runs * N);
        CHECK_NEAR(variance, 1, 0.13);
        if (fabs(variance - 1) > 0.13) fprintf(stderr, "  %s\n", sde[k]);
    }
}

/* Whatever the sigmas are, a run ends, with success or with a message. */
static void any_sigmas_end(void)
{
    static const float lists[][5] = {
        {0.0001f, 0.1f, 1, 5, 14}, {3, 3, 3, 3, 3},          {0, 0, 0, 0, 0},
        {5, 0, 3, 0, 1},           {1e30f, 1e20f, 10, 1, 0}, {3e38f, 3e38f, 1e-38f, 1e-45f, 0},
        {INFINITY, 10, 5, 1, 0},   {10, INFINITY, 5, 1, 0},  {10, 5, 1, 1, INFINITY},
        {NAN, 3, 2, 1, 0},         {3, NAN, 2, 1, 0},        {3, 2, 1, NAN, NAN},
        {-3, -2, -1, 0, 1}};
    for (const char *const *name = graft_sampler_list(); *name; name++)
        for (size_t k = 0; k < sizeof lists / sizeof *lists; k++)
            for (size_t n = 2; n <= 5; n++) {
                float x[N] = {3, -1};
                model m = {.gaussian = true};
                graft_status st = run(*name, &m, lists[k], n, x, NULL, false);
                CHECK(st == GRAFT_OK || st == GRAFT_E_ARG);
            }
}

static void short_runs_and_failures(void)
{
    float sigma[6];
    make_sigmas(sigma, 5);
    for (const char *const *name = graft_sampler_list(); *name; name++) {
        float x[N] = {3};
        model m = {.constant = 1};
        CHECK_INT(run(*name, &m, sigma, 0, x, NULL, false), GRAFT_OK);
        CHECK_INT(run(*name, &m, sigma, 1, x, NULL, false), GRAFT_OK);
        CHECK(m.calls == 0 && x[0] == 3);
        CHECK_INT(run(*name, &m, sigma, 4, x, NULL, false), GRAFT_OK); /* ends above 0 */
        int calls = m.calls;
        for (int at = 1; at <= calls; at++) {
            m.calls = 0, m.fail_at = at;
            float y[N] = {3};
            CHECK_INT(run(*name, &m, sigma, 4, y, NULL, false), GRAFT_E_CANCEL);
        }
        graft_alloc_fail_at(1);
        CHECK_INT(run(*name, &m, sigma, 6, x, NULL, false), GRAFT_E_NOMEM);
        graft_alloc_fail_at(0);
        float bad[N] = {NAN, INFINITY};
        m.fail_at = 0, m.gaussian = true;
        CHECK_INT(run(*name, &m, sigma, 6, bad, NULL, false), GRAFT_OK);
    }
    graft_alloc_stats stats;
    graft_alloc_stats_get(&stats);
    CHECK_INT(stats.live_blocks, 0);
}

int main(void)
{
    RUN(golden);
    RUN(list_and_flags);
    RUN(names_of_a_gpu);
    RUN(a_constant_is_reached);
    RUN(more_steps_are_closer);
    RUN(noise_has_the_right_size);
    RUN(any_sigmas_end);
    RUN(short_runs_and_failures);
    return test_end();
}
