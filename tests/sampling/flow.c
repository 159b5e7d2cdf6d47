/* Samplers on a flow whose data are normal: then D is known, and what comes out must be spread as
 * the data are, whatever noise was added on the way. */
#include <math.h>
#include <string.h>

#include "engine/denoise/flow_form.h"
#include "tests/test.h"

enum { VALUES = 4000, STEPS = 60 };
#define SPREAD 0.7 /* of the data */

/* E[latent | (1 - sigma) latent + sigma noise = x] */
static graft_status denoise(void *ctx, const float *x, float sigma, float *out, graft_err *e)
{
    const double a = 1 - (double)sigma, v = SPREAD * SPREAD;
    const double gain = a * v / (a * a * v + (double)sigma * (double)sigma);
    (void)ctx;
    (void)e;
    for (int i = 0; i < VALUES; i++) out[i] = (float)(gain * (double)x[i]);
    return GRAFT_OK;
}

static graft_status denoise_pair(void *ctx, const float *x, float sigma, float *out,
                                 float *unconditional, graft_err *e)
{
    denoise(ctx, x, sigma, unconditional, e);
    return denoise(ctx, x, sigma, out, e);
}

static double spread(const float *x)
{
    double sum = 0;
    for (int i = 0; i < VALUES; i++) sum += (double)x[i] * (double)x[i];
    return sqrt(sum / VALUES);
}

/* The spread of what the sampler makes of noise; in the form that it is for, or in the flow's own.
 * numbers may be NULL. */
static double sampled(const char *name, const graft_sigma_table *t, bool own,
                      const graft_sampler_numbers *numbers)
{
    static float x[VALUES];
    static float sigma[GRAFT_SCHEDULE_STEPS + 2];
    const graft_model flow = {.prediction = GRAFT_PREDICT_FLOW};
    graft_err e = GRAFT_ERR_INIT;
    graft_flow_form *form = NULL;
    graft_brownian *brownian = NULL;
    graft_denoiser d = {NULL, denoise, denoise_pair};
    graft_rng rng;
    size_t n = 0;
    CHECK_OK(graft_schedule_make(t, "simple", STEPS, sigma, GRAFT_SCHEDULE_STEPS + 2, &n, &e), &e);
    graft_rng_seed(&rng, 5);
    graft_rng_randn(&rng, x, VALUES);
    graft_noise_source source = graft_noise_plain(&rng);
    if (!own && graft_flow_form_wanted(&flow, name, numbers ? numbers->eta : 0)) {
        CHECK_OK(graft_flow_form_create(&d, NULL, VALUES, &form, &e), &e);
        d = graft_flow_form_denoiser(form);
        for (size_t i = 0; i < n; i++) sigma[i] = graft_flow_form_level(t, sigma[i]);
        double scale = hypot(sigma[0], SPREAD);
        for (int i = 0; i < VALUES; i++) x[i] *= (float)scale;
    }
    if (graft_sampler_is_sde(name)) {
        CHECK_OK(graft_brownian_create(sigma[n - 2], sigma[0], 7, VALUES, &brownian, &e), &e);
        source = graft_brownian_source(brownian);
    }
    graft_sampler_run run = {.denoiser = &d,
                             .noise = &source,
                             .sigmas = sigma,
                             .n_sigmas = n,
                             .flow = form != NULL,
                             .numbers = numbers,
                             .x = x,
                             .n = VALUES,
                             .batch = 1,
                             .sigma_min = sigma[n - 2],
                             .sigma_max = sigma[0],
                             .noise_from_sigma = sigma[n / 5],
                             .noise_to_sigma = sigma[n - n / 5]};
    CHECK_OK(graft_sampler_run_named(name, &run, &e), &e);
    graft_flow_form_destroy(form);
    graft_brownian_destroy(brownian);
    return spread(x);
}

/* lcm goes from D to D, which shrinks what is no consistency model's: by how much is known. */
static double lcm_spread(const graft_sigma_table *t)
{
    static float sigma[GRAFT_SCHEDULE_STEPS + 2];
    const double v = SPREAD * SPREAD;
    double now = v;
    size_t n = 0;
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(graft_schedule_make(t, "simple", STEPS, sigma, GRAFT_SCHEDULE_STEPS + 2, &n, &e), &e);
    for (size_t i = 0; i + 1 < n; i++) {
        double s = graft_flow_form_level(t, sigma[i]), gain = v / (v + s * s);
        now = gain * gain * (now + s * s);
    }
    return sqrt(now);
}

/* Their steps are finite, and there are 4000 values: a tenth either way, where euler has 5 %. */
static void spreads(void)
{
    graft_sigma_table t;
    graft_sigma_table_init_flow(&t, 3, GRAFT_SCHEDULE_STEPS);
    for (const char *const *name = graft_sampler_list(); *name; name++) {
        double got = sampled(*name, &t, false, NULL);
        double wanted = strcmp(*name, "lcm") == 0 ? lcm_spread(&t) : SPREAD;
        CHECK(fabs(got / wanted - 1) < 0.1);
        if (!(fabs(got / wanted - 1) < 0.1)) fprintf(stderr, "%s: %g of %g\n", *name, got, wanted);
    }
}

/* What they would do to a flow's own states. */
static void form_matters(void)
{
    static const char *const samplers[] = {"euler_ancestral", "dpmpp_2m_sde", "dpmpp_sde", "ddpm",
                                           "seeds_2"};
    graft_sigma_table t;
    graft_sigma_table_init_flow(&t, 3, GRAFT_SCHEDULE_STEPS);
    for (size_t i = 0; i < sizeof samplers / sizeof *samplers; i++) {
        double got = sampled(samplers[i], &t, true, NULL);
        CHECK(!(fabs(got / SPREAD - 1) < 0.12));
    }
}

/* dpm_adaptive adds noise only if it is told to, and takes the flow's own states else. */
static void adaptive_noise(void)
{
    const graft_sampler_numbers k = {
        .eta = 1,
        .s_noise = 1,
        .r = 0.5,
        .order = 3,
        .adaptive = {
            .rtol = 0.05, .atol = 0.0078, .h_init = 0.05, .icoeff = 1, .accept_safety = 0.81}};
    graft_sigma_table t;
    graft_sigma_table_init_flow(&t, 3, GRAFT_SCHEDULE_STEPS);
    CHECK_NEAR(sampled("dpm_adaptive", &t, false, &k) / SPREAD, 1, 0.1);
    CHECK(!(fabs(sampled("dpm_adaptive", &t, true, &k) / SPREAD - 1) < 0.12));
}

int main(void)
{
    RUN(spreads);
    RUN(form_matters);
    RUN(adaptive_noise);
    return test_end();
}
