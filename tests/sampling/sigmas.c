/* Sigmas as an object: formulas against values that were computed in double from the papers'
 * formulas, parts, order, and what is no sigma. */
#include <math.h>
#include <stdint.h>
#include <string.h>

#include "base/alloc.h"
#include "engine/engine.h"
#include "engine/sampling/schedule.h"
#include "tests/test.h"

#define SD_MAX 14.614642
#define SD_MIN 0.0291675

static graft_err e;

/* Releases `s`. */
static void expect(graft_status st, graft_sigmas *s, const double *want, size_t n_want,
                   double tolerance)
{
    size_t n = 0;
    CHECK_OK(st, &e);
    if (!s) return;
    const float *got = graft_sigmas_data(s, &n);
    CHECK(got != NULL);
    CHECK_INT(n, n_want);
    for (size_t i = 0; i < n && i < n_want; i++) CHECK_NEAR(got[i], want[i], tolerance * want[i]);
    graft_sigmas_release(s);
}
#define EXPECT(st, s, tolerance, ...)                                                              \
    expect(st, s, (const double[]){__VA_ARGS__}, sizeof(double[]){__VA_ARGS__} / sizeof(double),   \
           tolerance)

static graft_sigmas *sigmas_of(const float *values, size_t n)
{
    graft_sigmas *s = NULL;
    CHECK_OK(graft_sigmas_from_data(values, n, &s, &e), &e);
    return s;
}
#define SIGMAS(...)                                                                                \
    sigmas_of((const float[]){__VA_ARGS__}, sizeof(float[]){__VA_ARGS__} / sizeof(float))

static void formulas(void)
{
    graft_sigmas *s = NULL;
    graft_status st = graft_sigmas_karras(5, SD_MAX, SD_MIN, 7, &s, &e);
    EXPECT(st, s, 2e-6, 14.614642, 4.7965418, 1.2741046, 0.24795151, 0.0291675, 0);
    st = graft_sigmas_karras(5, 10, 2, 1, &s, &e);
    EXPECT(st, s, 1e-7, 10, 8, 6, 4, 2, 0);
    st = graft_sigmas_exponential(5, 16, 1, &s, &e);
    EXPECT(st, s, 1e-6, 16, 8, 4, 2, 1, 0);
    st = graft_sigmas_polyexponential(5, SD_MAX, SD_MIN, 2, &s, &e);
    EXPECT(st, s, 2e-6, 14.614642, 0.96291235, 0.13799757, 0.043017213, 0.0291675, 0);
    st = graft_sigmas_polyexponential(5, 16, 1, 1, &s, &e);
    EXPECT(st, s, 1e-6, 16, 8, 4, 2, 1, 0);
    st = graft_sigmas_polyexponential(3, 16, 1, 0, &s, &e);
    EXPECT(st, s, 1e-6, 16, 16, 16, 0);
    /* exp(...) - 1 in float32 has few digits left for the smallest. */
    st = graft_sigmas_vp(5, 19.9, 0.1, 0.001, &s, &e);
    EXPECT(st, s, 2e-3, 152.16697, 17.049123, 3.4222448, 0.95752648, 0.010485993, 0);
    st = graft_sigmas_vp(3, 4, 1, 0, &s, &e);
    EXPECT(st, s, 1e-6, 4.3686997, 1.3108325, 0, 0);
    st = graft_sigmas_laplace(5, SD_MAX, SD_MIN, 0, 0.5, &s, &e);
    EXPECT(st, s, 2e-6, 14.614642, 1.4141994, 1, 0.70711385, 0.0291675);
    st = graft_sigmas_laplace(4, 100, 0.1, 0.5, 1, &s, &e);
    EXPECT(st, s, 2e-6, 100, 2.4730448, 1.099164, 0.1);
    st = graft_sigmas_laplace(3, 2, 0.5, -1, 2, &s, &e); /* the middle is below the least */
    EXPECT(st, s, 1e-6, 2, 0.5, 0.5);
    st = graft_sigmas_laplace(1, 20, 0.5, 0, 0.5, &s, &e);
    EXPECT(st, s, 1e-6, 20);
    st = graft_sigmas_karras(1, 5, 1, 7, &s, &e);
    EXPECT(st, s, 1e-6, 5, 0);
    st = graft_sigmas_karras(3, 1, 4, 1, &s, &e); /* upwards, when the ends are exchanged */
    EXPECT(st, s, 1e-6, 1, 2.5, 4, 0);
    st = graft_sigmas_karras(2, 3, 0, 7, &s, &e);
    EXPECT(st, s, 1e-6, 3, 0, 0);
}

/* The levels belong to the timesteps that the authors tell for SD 1.5 and SDXL, which are rounded.
 */
static void steps_are_aligned(void)
{
    static const char *const kinds[] = {"SD1", "SDXL"};
    static const int timesteps[2][11] = {{999, 850, 736, 645, 545, 455, 343, 233, 124, 24, 0},
                                         {999, 845, 730, 587, 443, 310, 193, 116, 53, 13, 0}};
    graft_sigma_table t;
    graft_sigmas *s = NULL, *few = NULL;
    size_t n;
    graft_sigma_table_init(&t, 0.00085, 0.012, false, false);
    for (int k = 0; k < 2; k++) {
        CHECK_OK(graft_sigmas_align_your_steps(kinds[k], 10, 1, &s, &e), &e);
        const float *v = graft_sigmas_data(s, &n);
        CHECK_INT(n, 11);
        for (int i = 0; i < 10; i++)
            CHECK_NEAR(graft_sigma_to_timestep(&t, v[i]), timesteps[k][i], 1);
        CHECK(v[10] == 0);
        graft_sigmas_release(s);
    }
    graft_status st = graft_sigmas_align_your_steps("SD1", 2, 1, &s, &e);
    EXPECT(st, s, 1e-6, 14.615, 1.396, 0);
    /* Between two levels log sigma is halved: step 1 of 20. */
    CHECK_OK(graft_sigmas_align_your_steps("SD1", 20, 1, &s, &e), &e);
    CHECK_NEAR(graft_sigmas_data(s, &n)[1], sqrt(14.615 * 6.475), 1e-5);
    CHECK_INT(n, 21);
    CHECK_OK(graft_sigmas_align_your_steps("SD1", 20, 0.25, &few, &e), &e);
    const float *last = graft_sigmas_data(s, &n) + 15, *part = graft_sigmas_data(few, &n);
    CHECK_INT(n, 6);
    for (size_t i = 0; i < n; i++) CHECK(part[i] == last[i]);
    graft_sigmas_release(few);
    graft_sigmas_release(s);
    CHECK_OK(graft_sigmas_align_your_steps("SDXL", 7, 0, &s, &e), &e);
    graft_sigmas_data(s, &n);
    CHECK_INT(n, 0);
    graft_sigmas_release(s);
    CHECK_INT(graft_sigmas_align_your_steps("SVD", 10, 1, &s, &e), GRAFT_E_UNSUPPORTED);
    CHECK_INT(graft_sigmas_align_your_steps("SD1", 0, 1, &s, &e), GRAFT_E_ARG);
    CHECK_INT(graft_sigmas_align_your_steps("SD1", 10, NAN, &s, &e), GRAFT_E_ARG);
    CHECK(!s);
}

static void first_is_replaced(void)
{
    graft_sigmas *s = SIGMAS(3, 2, 1), *r = NULL, *none = sigmas_of(NULL, 0);
    size_t n;
    graft_status st = graft_sigmas_set_first(s, 136, &r, &e);
    EXPECT(st, r, 0, 136, 2, 1);
    CHECK_OK(graft_sigmas_set_first(none, 5, &r, &e), &e);
    graft_sigmas_data(r, &n);
    CHECK_INT(n, 0);
    graft_sigmas_release(r);
    CHECK_INT(graft_sigmas_set_first(s, -1, &r, &e), GRAFT_E_ARG);
    CHECK_INT(graft_sigmas_set_first(s, NAN, &r, &e), GRAFT_E_ARG);
    CHECK(!r);
    graft_sigmas_release(s);
    graft_sigmas_release(none);
}

/* The scheduler of that name, and others of its kind. */
static void beta_has_two_numbers(void)
{
    graft_sigma_table t;
    float want[64], got[64];
    size_t n;
    graft_sigma_table_init(&t, 0.00085, 0.012, false, false);
    for (int steps = 1; steps < 60; steps += 7) {
        CHECK_OK(graft_schedule_make(&t, "beta", steps, want, 64, &n, &e), &e);
        CHECK_INT(graft_schedule_beta(&t, steps, 0.6, 0.6, got), n);
        CHECK(memcmp(got, want, n * sizeof *got) == 0);
    }
    /* Beta(1, 1) is the uniform distribution, Beta(1, 2) has the quantiles 1 - sqrt(1 - p). */
    CHECK_INT(graft_schedule_beta(&t, 4, 1, 1, got), 5);
    const int even[] = {999, 749, 500, 250};
    for (int i = 0; i < 4; i++) CHECK(got[i] == t.sigma[even[i]]);
    CHECK_INT(graft_schedule_beta(&t, 2, 1, 2, got), 3);
    CHECK(got[0] == t.sigma[999] && got[1] == t.sigma[293] && got[2] == 0);
    /* All steps at one place stand once. */
    n = graft_schedule_beta(&t, 40, 1e-3, 50, got);
    CHECK(n >= 2 && n < 41 && got[n - 1] == 0);
}

/* The schedulers of a model's table are the same formulas between its ends. */
static void formulas_are_the_schedulers(void)
{
    static const char *const names[] = {"karras", "exponential"};
    graft_sigma_table t;
    float want[64];
    graft_sigma_table_init(&t, 0.00085, 0.012, false, false);
    for (int k = 0; k < 2; k++)
        for (int steps = 1; steps < 50; steps += 7) {
            graft_sigmas *s = NULL;
            size_t n = 0, m = 0;
            double high = t.sigma[t.count - 1], low = t.sigma[0];
            CHECK_OK(graft_schedule_make(&t, names[k], steps, want, 64, &n, &e), &e);
            CHECK_OK(k ? graft_sigmas_exponential(steps, high, low, &s, &e)
                       : graft_sigmas_karras(steps, high, low, 7, &s, &e),
                     &e);
            const float *got = graft_sigmas_data(s, &m);
            CHECK(m == n && memcmp(got, want, n * sizeof *got) == 0);
            graft_sigmas_release(s);
        }
}

static void split(const graft_sigmas *s, int64_t step, const double *high, size_t n_high,
                  const double *low, size_t n_low)
{
    graft_sigmas *a = NULL, *b = NULL;
    graft_status st = graft_sigmas_split(s, step, &a, &b, &e);
    expect(st, a, high, n_high, 0);
    expect(st, b, low, n_low, 0);
}

static void split_denoise(const graft_sigmas *s, double denoise, size_t n_high, size_t n_low)
{
    graft_sigmas *a = NULL, *b = NULL;
    size_t n, all;
    const float *whole = graft_sigmas_data(s, &all);
    CHECK_OK(graft_sigmas_split_denoise(s, denoise, &a, &b, &e), &e);
    const float *high = graft_sigmas_data(a, &n);
    CHECK_INT(n, n_high);
    CHECK(memcmp(high, whole, n * sizeof *high) == 0);
    const float *low = graft_sigmas_data(b, &n);
    CHECK_INT(n, n_low);
    CHECK(memcmp(low, whole + all - n, n * sizeof *low) == 0);
    graft_sigmas_release(a);
    graft_sigmas_release(b);
}

static void parts(void)
{
    static const double v[] = {9, 5, 2, 1, 0};
    graft_sigmas *s = SIGMAS(9, 5, 2, 1, 0), *none = sigmas_of(NULL, 0), *a = NULL, *b = NULL;
    split(s, 0, v, 1, v, 5);
    split(s, 2, v, 3, v + 2, 3);
    split(s, 4, v, 5, v + 4, 1);
    split(s, 5, v, 5, NULL, 0);
    split(s, INT64_MAX, v, 5, NULL, 0);
    split(none, 0, NULL, 0, NULL, 0);
    split(none, 3, NULL, 0, NULL, 0);
    CHECK_INT(graft_sigmas_split(s, -1, &a, &b, &e), GRAFT_E_ARG);
    CHECK(!a && !b);
    split_denoise(s, 1, 1, 5);
    split_denoise(s, 0.75, 2, 4);
    split_denoise(s, 0.625, 3, 3); /* 2.5 steps: the even number */
    split_denoise(s, 0.875, 1, 5); /* 3.5 */
    split_denoise(s, 0.1, 5, 1);
    split_denoise(s, 0, 5, 1);
    split_denoise(none, 0.5, 0, 0);
    CHECK_INT(graft_sigmas_split_denoise(s, 1.01, &a, &b, &e), GRAFT_E_ARG);
    CHECK_INT(graft_sigmas_split_denoise(s, NAN, &a, &b, &e), GRAFT_E_ARG);
    graft_status st = graft_sigmas_flip(s, &a, &e);
    EXPECT(st, a, 1e-7, 0.0001, 1, 2, 5, 9);
    st = graft_sigmas_flip(none, &a, &e);
    expect(st, a, NULL, 0, 0);
    graft_sigmas_release(none);
    none = SIGMAS(3, 2);
    st = graft_sigmas_flip(none, &a, &e);
    EXPECT(st, a, 0, 2, 3);
    graft_sigmas_release(none);
    graft_sigmas_release(s);
}

static void refused(graft_status st, graft_sigmas *const *s, graft_status want, const char *words)
{
    CHECK_INT(st, want);
    CHECK(!*s && strstr(e.text, words));
    if (!strstr(e.text, words)) fprintf(stderr, "  it says: %s\n", e.text);
}

static void what_is_no_sigma(void)
{
    graft_sigmas *s = NULL;
    graft_status st;
    static const float bad[] = {NAN, INFINITY, -INFINITY, -1e-30f};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        st = graft_sigmas_from_data((const float[]){1, bad[i], 0}, 3, &s, &e);
        refused(st, &s, GRAFT_E_ARG, "sigma 2 of 3");
    }
    st = graft_sigmas_from_data(bad, 1000000, &s, &e);
    refused(st, &s, GRAFT_E_LIMIT, "1000000");
    static const int64_t steps[] = {0, -1, 100001, INT64_MAX, INT64_MIN};
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        refused(graft_sigmas_karras(steps[i], 10, 1, 7, &s, &e), &s, GRAFT_E_ARG, "steps");
        refused(graft_sigmas_exponential(steps[i], 10, 1, &s, &e), &s, GRAFT_E_ARG, "steps");
        refused(graft_sigmas_polyexponential(steps[i], 10, 1, 1, &s, &e), &s, GRAFT_E_ARG, "steps");
        refused(graft_sigmas_vp(steps[i], 10, 1, 0.1, &s, &e), &s, GRAFT_E_ARG, "steps");
        refused(graft_sigmas_laplace(steps[i], 10, 1, 0, 1, &s, &e), &s, GRAFT_E_ARG, "steps");
    }
    refused(graft_sigmas_karras(5, 10, 1, 0, &s, &e), &s, GRAFT_E_ARG, "rho");
    refused(graft_sigmas_karras(5, NAN, 1, 7, &s, &e), &s, GRAFT_E_ARG, "finite");
    refused(graft_sigmas_laplace(5, 1, 10, 0, 1, &s, &e), &s, GRAFT_E_ARG, "sigma_min");
    refused(graft_sigmas_laplace(5, 10, -1, 0, 1, &s, &e), &s, GRAFT_E_ARG, "sigma_min");
    refused(graft_sigmas_laplace(5, NAN, 1, 0, 1, &s, &e), &s, GRAFT_E_ARG, "sigma_max");
    refused(graft_sigmas_laplace(5, 10, 1, NAN, 1, &s, &e), &s, GRAFT_E_ARG, "finite");
    refused(graft_sigmas_laplace(5, 10, 1, 0, INFINITY, &s, &e), &s, GRAFT_E_ARG, "finite");
    refused(graft_sigmas_exponential(5, 10, 0, &s, &e), &s, GRAFT_E_ARG, "sigma_min");
    refused(graft_sigmas_exponential(5, 0, 1, &s, &e), &s, GRAFT_E_ARG, "sigma_max");
    refused(graft_sigmas_polyexponential(5, NAN, 1, 1, &s, &e), &s, GRAFT_E_ARG, "sigma_max");
    refused(graft_sigmas_vp(5, 5000, 0.1, 0.001, &s, &e), &s, GRAFT_E_ARG, "finite");
    st = graft_sigmas_vp(100000, 19.9, 0.1, 0.001, &s, &e); /* many, but not too many */
    CHECK_OK(st, &e);
    graft_sigmas_release(s);
}

static void references_and_memory(void)
{
    graft_sigmas *s = SIGMAS(2, 1, 0), *a, *b;
    CHECK(graft_sigmas_retain(s) == s);
    graft_sigmas_release(s);
    graft_sigmas_release(NULL);
    CHECK(!graft_sigmas_retain(NULL));
    for (int k = 1; k <= 2; k++) {
        graft_alloc_fail_at(k);
        CHECK_INT(graft_sigmas_split(s, 1, &a, &b, &e), GRAFT_E_NOMEM);
        CHECK(!a && !b);
    }
    graft_alloc_fail_at(1);
    CHECK_INT(graft_sigmas_flip(s, &a, &e), GRAFT_E_NOMEM);
    graft_alloc_fail_at(1);
    CHECK_INT(graft_sigmas_karras(3, 2, 1, 7, &a, &e), GRAFT_E_NOMEM);
    graft_alloc_fail_at(0);
    graft_sigmas_release(s);
    graft_alloc_stats stats;
    graft_alloc_stats_get(&stats);
    CHECK_INT(stats.live_blocks, 0);
}

/* FLUX.2's, for as many steps and tokens as its authors' formula in float64 gives them. */
static void by_size(void)
{
    graft_sigmas *s = NULL;
    graft_status st = graft_sigmas_flux2(4, 1024, 1024, &s, &e);
    EXPECT(st, s, 1e-6, 1, 0.96738399, 0.90814392, 0.76719996, 0);
    st = graft_sigmas_flux2(4, 512 + 15, 512 + 15, &s, &e); /* whole tokens */
    EXPECT(st, s, 1e-6, 1, 0.95808537, 0.88398183, 0.71749656, 0);
    st = graft_sigmas_flux2(2, 2048, 2048, &s, &e); /* beyond 4300 tokens, whatever the steps */
    EXPECT(st, s, 1e-6, 1, 0.96194725, 0);
    st = graft_sigmas_flux2(1, 16, 16, &s, &e);
    EXPECT(st, s, 1e-6, 1, 0);
    refused(graft_sigmas_flux2(0, 16, 16, &s, &e), &s, GRAFT_E_ARG, "steps");
    refused(graft_sigmas_flux2(4, 15, 16, &s, &e), &s, GRAFT_E_ARG, "15x16");
    refused(graft_sigmas_flux2(4, 16, -16, &s, &e), &s, GRAFT_E_ARG, "16x-16");
    refused(graft_sigmas_flux2(4, 16, INT64_MAX, &s, &e), &s, GRAFT_E_ARG, "pixels");
}

int main(void)
{
    RUN(formulas);
    RUN(by_size);
    RUN(steps_are_aligned);
    RUN(first_is_replaced);
    RUN(beta_has_two_numbers);
    RUN(formulas_are_the_schedulers);
    RUN(parts);
    RUN(what_is_no_sigma);
    RUN(references_and_memory);
    return test_end();
}
