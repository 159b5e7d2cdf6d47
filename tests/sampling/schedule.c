#include <stdbool.h>

#include "engine/sampling/beta_quantile.h"
#include "engine/sampling/schedule.h"
#include "tests/sampling/golden.h"
#include "tests/test.h"

static void golden(void)
{
    golden_compare(golden_schedules, "schedules.safetensors");
}

static void every_scheduler_descends(void)
{
    static const int steps[] = {1, 2, 3, 5, 16, 17, 33, 250, 600, 999, 1000, 1500};
    static float out[2000];
    graft_sigma_table table;
    for (int lcm = 0; lcm < 2; lcm++) {
        graft_sigma_table_init(&table, 0.00085, 0.012, lcm, lcm);
        for (const char *const *name = graft_schedule_names(); *name; name++)
            for (size_t k = 0; k < sizeof steps / sizeof *steps; k++) {
                size_t n = 0;
                graft_err e = GRAFT_ERR_INIT;
                CHECK_OK(graft_schedule_make(&table, *name, steps[k], out, 2000, &n, &e), &e);
                bool falls = n >= 2 && out[n - 1] == 0 && isfinite(out[0]);
                for (size_t i = 1; i < n; i++) falls = falls && out[i] <= out[i - 1];
                CHECK(falls);
                if (!falls) fprintf(stderr, "  %s, %d steps\n", *name, steps[k]);
                bool fixed = strcmp(*name, "ddim_uniform") && strcmp(*name, "beta");
                if (fixed) CHECK_INT(n, steps[k] + 1);
                CHECK(out[0] <= table.sigma[table.count - 1] * 1.0001f);
            }
    }
}

static void refusals(void)
{
    float out[8];
    size_t n;
    graft_sigma_table table;
    graft_sigma_table_init(&table, 0.00085, 0.012, false, false);
    CHECK_INT(graft_schedule_make(&table, "none", 3, out, 8, &n, NULL), GRAFT_E_NOTFOUND);
    CHECK_INT(graft_schedule_make(&table, "normal", 0, out, 8, &n, NULL), GRAFT_E_ARG);
    CHECK_INT(graft_schedule_make(&table, "normal", 8, out, 8, &n, NULL), GRAFT_E_LIMIT);
    CHECK_INT(graft_schedule_make(&table, "normal", 7, out, 8, &n, NULL), GRAFT_OK);
}

static void timesteps_and_back(void)
{
    graft_sigma_table t;
    for (int lcm = 0; lcm < 2; lcm++) {
        graft_sigma_table_init(&t, 0.00085, 0.012, false, lcm);
        CHECK_INT(t.count, lcm ? 50 : 1000);
        for (int i = 0; i < t.count; i++) {
            float step = (float)(t.timestep_stride * (i + 1) - 1);
            CHECK_NEAR(graft_timestep_to_sigma(&t, step), t.sigma[i], 2e-6 * t.sigma[i]);
            CHECK_NEAR(graft_sigma_to_timestep(&t, t.sigma[i]), step, 0);
        }
        CHECK_NEAR(graft_timestep_to_sigma(&t, -5), t.sigma[0], 1e-7);
        CHECK_NEAR(graft_timestep_to_sigma(&t, 5000), t.sigma[t.count - 1], 1e-5);
    }
}

static void percents(void)
{
    graft_sigma_table t;
    graft_sigma_table_init(&t, 0.00085, 0.012, false, false);
    CHECK(graft_percent_to_sigma(&t, 0) > 1e8f);
    CHECK_NEAR(graft_percent_to_sigma(&t, 1), 0, 0);
    CHECK_NEAR(graft_percent_to_sigma(&t, 0.5), graft_timestep_to_sigma(&t, 499.5f), 0);
}

static void zero_terminal_snr(void)
{
    graft_sigma_table t;
    graft_sigma_table_init(&t, 0.00085, 0.012, true, false);
    CHECK_NEAR(t.sigma[999], 4518.75, 0.1);
    CHECK_NEAR(t.sigma[0], 0.0291675, 1e-4);
}

static void beta_quantiles(void)
{
    /* I_x(1, b) = 1 - (1 - x)^b; I_x(1/2, 1/2) = 2 / pi asin(sqrt(x)). */
    for (double p = 0.05; p < 1; p += 0.05) {
        CHECK_NEAR(graft_beta_quantile(p, 1, 3), 1 - cbrt(1 - p), 1e-13);
        CHECK_NEAR(graft_beta_quantile(p, 0.5, 0.5), pow(sin(p * acos(-1) / 2), 2), 1e-13);
    }
    CHECK_NEAR(graft_beta_quantile(0, 0.6, 0.6), 0, 0);
    CHECK_NEAR(graft_beta_quantile(1, 0.6, 0.6), 1, 0);
}

/* Networks that are told any sigma: equal steps of its logarithm, exact timesteps, both ways. */
static void any_sigma(void)
{
    static const double want[2][4] = {/* of 0.01, 1, 30 and 120 */
                                      {-1.1512925, 0, 0.85029935, 1.1968728},
                                      {0.0063659856, 0.5, 0.97878720, 0.99469496}};
    static const float sigmas[] = {0.01f, 1, 30, 120};
    graft_sigma_table t;
    for (int k = 0; k < 2; k++) {
        graft_sigma_table_init_continuous(&t, 0.002, 120, k ? GRAFT_TIME_ANGLE : GRAFT_TIME_LOG);
        CHECK_INT(t.count, 1000);
        CHECK_NEAR(t.sigma[0], 0.002, 1e-8);
        CHECK_NEAR(t.sigma[999], 120, 1e-3);
        for (int i = 1; i < 1000; i++)
            CHECK_NEAR(t.log_sigma[i] - t.log_sigma[i - 1], log(60000) / 999, 4e-6);
        for (int i = 0; i < 4; i++) {
            const float told = graft_sigma_to_timestep(&t, sigmas[i]);
            CHECK_NEAR(told, want[k][i], 2e-7);
            CHECK_NEAR(graft_timestep_to_sigma(&t, told), sigmas[i], 4e-5 * sigmas[i]);
        }
        CHECK(graft_percent_to_sigma(&t, 0) > 1e8f && graft_percent_to_sigma(&t, 1) == 0);
        CHECK_NEAR(graft_percent_to_sigma(&t, 0.5), sqrt(0.002 * 120), 1e-6);
        CHECK_NEAR(graft_percent_to_sigma(&t, 0.25), pow(0.002, 0.25) * pow(120, 0.75), 1e-5);
    }
}

int main(void)
{
    RUN(golden);
    RUN(every_scheduler_descends);
    RUN(refusals);
    RUN(timesteps_and_back);
    RUN(percents);
    RUN(any_sigma);
    RUN(zero_terminal_snr);
    RUN(beta_quantiles);
    return test_end();
}
