/* Samplers with other numbers than the usual ones, against the steps as k-diffusion's authors write
 * them, in double; and where one sampler becomes another. */
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "engine/sampling/sampler.h"
#include "tests/test.h"

enum { N = 8, STEPS = 6 };
#define NUMBERS(eta_, s_noise_, r_, order_, reverse_)                                              \
    {                                                                                              \
        .eta = (eta_), .s_noise = (s_noise_), .r = (r_), .order = (order_), .reverse = (reverse_)  \
    }

#include "tests/sampling/numbers_values.inc"

static graft_err e;
static float sigma[STEPS + 1];
static int calls; /* of the denoiser */

/* Data ~ N(0, 1), and a little that depends on the place. */
static double denoised(double x, double s, int i)
{
    return x / (1 + s * s) + 0.1 * sin(i + s);
}

static graft_status denoise(void *ctx, const float *x, float s, float *out, graft_err *err)
{
    (void)ctx, (void)err;
    calls++;
    for (int i = 0; i < N; i++) out[i] = (float)denoised(x[i], s, i);
    return GRAFT_OK;
}

/* Without the prompt. */
static double other(double x, double s, int i)
{
    return 0.8 * denoised(x, s, i) - 0.05 * cos(i);
}

static graft_status denoise_pair(void *ctx, const float *x, float s, float *out, float *without,
                                 graft_err *err)
{
    for (int i = 0; i < N; i++) without[i] = (float)other(x[i], s, i);
    return denoise(ctx, x, s, out, err);
}

/* Noise that depends on where a step goes from and to. */
static double noise(double s, double t, int i)
{
    return cos(3 * s + 5 * t + 7 * i);
}

static graft_status draw(void *ctx, double s, double t, float *out, size_t n, graft_err *err)
{
    (void)ctx, (void)err;
    for (size_t i = 0; i < n; i++) out[i] = (float)noise(s, t, (int)i);
    return GRAFT_OK;
}

static void start(float *x)
{
    for (int i = 0; i < N; i++) x[i] = (float)(sigma[0] * sin(1 + i));
}

static graft_status sample_along(const char *name, const graft_sampler_numbers *k, float *x,
                                 const float *sigmas, size_t n_sigmas, float from, float to)
{
    const graft_denoiser d = {.denoise = denoise, .denoise_pair = denoise_pair};
    const graft_noise_source source = {.draw = draw};
    graft_sampler_run run = {.denoiser = &d,
                             .noise = &source,
                             .sigmas = sigmas,
                             .n_sigmas = n_sigmas,
                             .noise_from_sigma = from,
                             .noise_to_sigma = to,
                             .numbers = k,
                             .x = x,
                             .n = N,
                             .batch = 1,
                             .sigma_min = 0.03f,
                             .sigma_max = 15};
    start(x);
    calls = 0;
    return graft_sampler_run_named(name, &run, &e);
}

static graft_status sample(const char *name, const graft_sampler_numbers *k, float *x)
{
    return sample_along(name, k, x, sigma, STEPS + 1, 5, 0.4f);
}

/* The larger of `worst` and what a and b differ by; infinite where that is no number. */
static double further(double worst, double a, double b)
{
    double by = fabs(a - b);
    if (by <= worst) return worst;
    return isnan(by) ? (double)INFINITY : by;
}

/* ------------------------------------------------------------------ by the book */

/* get_ancestral_step(). */
static void ancestral(double from, double to, double eta, double *down, double *up)
{
    double v = to * to * (from * from - to * to) / (from * from);
    *up = fmin(to, eta * sqrt(fmax(v, 0)));
    *down = sqrt(to * to - *up * *up);
}

static double euler_ancestral(const graft_sampler_numbers *k, double x, int i)
{
    for (int n = 0; n < STEPS; n++) {
        double s = sigma[n], t = sigma[n + 1], down, up;
        ancestral(s, t, k->eta, &down, &up);
        x += (x - denoised(x, s, i)) / s * (down - s);
        if (t > 0) x += noise(s, t, i) * k->s_noise * up;
    }
    return x;
}

/* Where the step goes is the guided prediction, the noise that is left is the other's. */
static double euler_ancestral_cfg_pp(const graft_sampler_numbers *k, double x, int i)
{
    for (int n = 0; n < STEPS; n++) {
        double s = sigma[n], t = sigma[n + 1], down, up;
        ancestral(s, t, k->eta, &down, &up);
        x = denoised(x, s, i) + (x - other(x, s, i)) / s * down;
        if (t > 0) x += noise(s, t, i) * k->s_noise * up;
    }
    return x;
}

static double dpmpp_2s_ancestral(const graft_sampler_numbers *k, double x, int i)
{
    for (int n = 0; n < STEPS; n++) {
        double s = sigma[n], t = sigma[n + 1], down, up, d = denoised(x, s, i);
        ancestral(s, t, k->eta, &down, &up);
        if (down == 0) {
            x += (x - d) / s * (down - s);
        } else {
            double a = -log(s), h = -log(down) - a, middle = a + h / 2;
            double x2 = exp(-middle) / exp(-a) * x - expm1(-h / 2) * d;
            double d2 = denoised(x2, exp(-middle), i);
            x = exp(-a - h) / exp(-a) * x - expm1(-h) * d2;
        }
        if (t > 0) x += noise(s, t, i) * k->s_noise * up;
    }
    return x;
}

static double dpmpp_sde(const graft_sampler_numbers *k, double x, int i)
{
    for (int n = 0; n < STEPS; n++) {
        double s = sigma[n], t = sigma[n + 1], down, up, d = denoised(x, s, i);
        if (t == 0) {
            x = d;
            continue;
        }
        double a = -log(s), h = -log(t) - a, middle = exp(-(a + h * k->r)), f = 1 / (2 * k->r);
        ancestral(s, middle, k->eta, &down, &up);
        double x2 = down / s * x - expm1(a + log(down)) * d;
        x2 += noise(s, middle, i) * k->s_noise * up;
        double d2 = denoised(x2, middle, i);
        ancestral(s, t, k->eta, &down, &up);
        x = down / s * x - expm1(a + log(down)) * ((1 - f) * d + f * d2);
        x += noise(s, t, i) * k->s_noise * up;
    }
    return x;
}

static double multistep(const graft_sampler_numbers *k, double x, int i, bool heun)
{
    double old = 0, h_last = 0;
    for (int n = 0; n < STEPS; n++) {
        double s = sigma[n], t = sigma[n + 1], d = denoised(x, s, i);
        if (t == 0) {
            x = d;
            continue;
        }
        double h = log(s) - log(t), eta_h = k->eta * h, r = h_last / h;
        x = t / s * exp(-eta_h) * x - expm1(-h - eta_h) * d;
        if (n > 0 && heun) x += (-expm1(-h - eta_h) / (-h - eta_h) + 1) / r * (d - old);
        if (n > 0 && !heun) x += -0.5 * expm1(-h - eta_h) / r * (d - old);
        x += noise(s, t, i) * t * sqrt(-expm1(-2 * eta_h)) * k->s_noise;
        old = d;
        h_last = h;
    }
    return x;
}

static double dpmpp_2m_sde(const graft_sampler_numbers *k, double x, int i)
{
    return multistep(k, x, i, false);
}

static double dpmpp_2m_sde_heun(const graft_sampler_numbers *k, double x, int i)
{
    return multistep(k, x, i, true);
}

static double dpmpp_3m_sde(const graft_sampler_numbers *k, double x, int i)
{
    double d1 = 0, d2 = 0, h1 = 0, h2 = 0;
    for (int n = 0; n < STEPS; n++) {
        double s = sigma[n], t = sigma[n + 1], d = denoised(x, s, i);
        if (t == 0) {
            x = d;
            continue;
        }
        double h = log(s) - log(t), h_eta = h * (k->eta + 1);
        x = exp(-h_eta) * x - expm1(-h_eta) * d;
        double phi2 = expm1(-h_eta) / h_eta + 1, phi3 = phi2 / h_eta - 0.5;
        if (n > 1) {
            double r0 = h1 / h, r1 = h2 / h, a = (d - d1) / r0, b = (d1 - d2) / r1;
            double first = a + (a - b) * r0 / (r0 + r1), second = (a - b) / (r0 + r1);
            x += phi2 * first - phi3 * second;
        } else if (n > 0) {
            x += phi2 * (d - d1) / (h1 / h);
        }
        x += noise(s, t, i) * t * sqrt(-expm1(-2 * h * k->eta)) * k->s_noise;
        d2 = d1, d1 = d;
        h2 = h1, h1 = h;
    }
    return x;
}

static const struct sampler {
    const char *name;
    double (*step)(const graft_sampler_numbers *k, double x, int i);
} samplers[] = {{"euler_ancestral", euler_ancestral},
                {"euler_ancestral_cfg_pp", euler_ancestral_cfg_pp},
                {"dpmpp_2s_ancestral", dpmpp_2s_ancestral},
                {"dpmpp_sde", dpmpp_sde},
                {"dpmpp_2m_sde", dpmpp_2m_sde},
                {"dpmpp_2m_sde_heun", dpmpp_2m_sde_heun},
                {"dpmpp_3m_sde", dpmpp_3m_sde}};
enum { SAMPLERS = sizeof samplers / sizeof *samplers };

static void as_their_authors_write_them(void)
{
    static const graft_sampler_numbers numbers[] = {
        NUMBERS(1, 1, 0.5, 4, false), NUMBERS(0, 1, 0.5, 4, false),
        NUMBERS(0.5, 1.3, 0.5, 4, false), NUMBERS(1.4, 0.7, 0.3, 4, false),
        NUMBERS(1, 0, 1, 4, false)};
    for (int s = 0; s < SAMPLERS; s++)
        for (int k = 0; k < 5; k++) {
            float x[N], from[N];
            double worst = 0;
            start(from);
            CHECK_OK(sample(samplers[s].name, &numbers[k], x), &e);
            for (int i = 0; i < N; i++)
                worst = further(worst, x[i], samplers[s].step(&numbers[k], from[i], i));
            if (!(worst < 2e-5))
                fprintf(stderr, "%s, numbers %d: %g\n", samplers[s].name, k, worst);
            CHECK(worst < 2e-5);
        }
}

/* The usual numbers change no bit. */
static void usual_ones(void)
{
    static const char *const more[] = {"lms", "er_sde"};
    static const graft_sampler_numbers usual = NUMBERS(1, 1, 0.5, GRAFT_LMS_ORDER, false);
    float a[N], b[N];
    for (int s = 0; s < SAMPLERS + 2; s++) {
        const char *name = s < SAMPLERS ? samplers[s].name : more[s - SAMPLERS];
        CHECK(graft_sampler_takes_numbers(name));
        CHECK_OK(sample(name, &usual, a), &e);
        CHECK_OK(sample(name, NULL, b), &e);
        CHECK(memcmp(a, b, sizeof a) == 0);
    }
}

static void check_alike(const char *name, const graft_sampler_numbers *k, const char *other)
{
    float a[N], b[N];
    CHECK_OK(sample(name, k, a), &e);
    CHECK_OK(sample(other, NULL, b), &e);
    for (int i = 0; i < N; i++) CHECK_NEAR(a[i], b[i], 1e-5);
}

/* Without noise ancestral samplers are the plain ones; lms of order 1 is euler. */
static void one_becomes_another(void)
{
    static const graft_sampler_numbers none = NUMBERS(0, 1, 0.5, 4, false),
                                       first = NUMBERS(1, 1, 0.5, 1, false);
    check_alike("euler_ancestral", &none, "euler");
    check_alike("dpmpp_2m_sde", &none, "dpmpp_2m");
    check_alike("lms", &first, "euler");
    float a[N], b[N];
    CHECK_OK(sample("lms", &(graft_sampler_numbers)NUMBERS(1, 1, 0.5, 2, false), a), &e);
    CHECK_OK(sample("lms", NULL, b), &e);
    CHECK(memcmp(a, b, sizeof a) != 0);
}

/* er_sde by the noise scale of reverse-time SDEs. In one stage its deterministic form is Euler's
 * step. With eta = 1 what is left of x is (t / s)^2, which is down / s of an ancestral step, and
 * the noise is as much. */
static void stages_and_scales(void)
{
    static const graft_sampler_numbers ode = NUMBERS(0, 0, 0.5, 1, true),
                                       sde = NUMBERS(1, 1, 0.5, 1, true);
    static const graft_sampler_numbers quiet = NUMBERS(1, 0, 0.5, 3, false),
                                       same = NUMBERS(9, 0, 0.5, 3, false);
    float a[N], b[N];
    check_alike("er_sde", &ode, "euler");
    check_alike("er_sde", &sde, "euler_ancestral");
    CHECK_OK(sample("er_sde", &quiet, a), &e);
    CHECK_OK(sample("er_sde", NULL, b), &e);
    CHECK(memcmp(a, b, sizeof a) != 0);
    CHECK_OK(sample("er_sde", &same, b), &e); /* has no eta */
    CHECK(memcmp(a, b, sizeof a) == 0);
}

/* Runge and Kutta's fourth-order steps of dx/ds = (x - D) / s down to the last sigma above 0, and
 * D there. */
static double exact(double x, int i)
{
    const int fine = 20000;
    double h = (sigma[STEPS - 1] - sigma[0]) / fine;
#define SLOPE(x, s) (((x)-denoised(x, s, i)) / (s))
    for (int n = 0; n < fine; n++) {
        double s = sigma[0] + n * h, k1 = SLOPE(x, s), k2 = SLOPE(x + h / 2 * k1, s + h / 2);
        double k3 = SLOPE(x + h / 2 * k2, s + h / 2), k4 = SLOPE(x + h * k3, s + h);
        x += h / 6 * (k1 + 2 * k2 + 2 * k3 + k4);
    }
#undef SLOPE
    return denoised(x, sigma[STEPS - 1], i);
}

/* Each stage comes closer to the solution of the ODE. */
static void more_stages_are_closer(void)
{
    double last = INFINITY;
    for (int order = 1; order <= 3; order++) {
        const graft_sampler_numbers k = NUMBERS(0, 0, 0.5, order, true);
        float x[N], from[N];
        double worst = 0;
        start(from);
        CHECK_OK(sample("er_sde", &k, x), &e);
        for (int i = 0; i < N; i++) worst = further(worst, x[i], exact(from[i], i));
        CHECK(worst < last);
        if (!(worst < last)) fprintf(stderr, "order %d: %g after %g\n", order, worst, last);
        last = worst;
    }
}

/* ------------------------------------------------------------------ dpm_adaptive */

static graft_sampler_numbers adaptive_numbers(const struct adaptive_case *c)
{
    return (graft_sampler_numbers){.eta = c->eta,
                                   .s_noise = c->s_noise,
                                   .r = 0.5,
                                   .order = c->order,
                                   .adaptive = {.rtol = c->rtol,
                                                .atol = c->atol,
                                                .h_init = c->h_init,
                                                .pcoeff = c->p,
                                                .icoeff = c->i,
                                                .dcoeff = c->d,
                                                .accept_safety = c->safety}};
}

/* As tools/golden_numbers.py has it, refused steps among them; the first of its cases are the usual
 * numbers. */
static void adaptive_steps(void)
{
    float x[N], usual[N];
    for (size_t c = 0; c < sizeof adaptive_cases / sizeof *adaptive_cases; c++) {
        const graft_sampler_numbers k = adaptive_numbers(&adaptive_cases[c]);
        double worst = 0;
        CHECK_OK(sample("dpm_adaptive", &k, x), &e);
        for (int i = 0; i < N; i++) worst = further(worst, x[i], adaptive_cases[c].x[i]);
        if (!(worst < 2e-5)) fprintf(stderr, "dpm_adaptive, case %zu: %g\n", c, worst);
        CHECK(worst < 2e-5);
        CHECK_INT(calls, adaptive_cases[c].calls);
    }
    const graft_sampler_numbers k = adaptive_numbers(&adaptive_cases[0]);
    CHECK_OK(sample("dpm_adaptive", &k, x), &e);
    CHECK_OK(sample("dpm_adaptive", NULL, usual), &e);
    CHECK(memcmp(x, usual, sizeof x) == 0);
    CHECK(!graft_sampler_assumes_scale("dpm_adaptive", 0));
    CHECK(graft_sampler_assumes_scale("dpm_adaptive", 0.1));
    CHECK(!graft_sampler_assumes_scale("lms", 1));
}

static void adaptive_numbers_without_a_meaning(void)
{
    static const double bad[] = {-1, NAN, INFINITY, 1e7};
    graft_sampler_numbers k = adaptive_numbers(&adaptive_cases[0]);
    double *const each[] = {&k.adaptive.rtol,         &k.adaptive.atol,   &k.adaptive.h_init,
                            &k.adaptive.pcoeff,       &k.adaptive.icoeff, &k.adaptive.dcoeff,
                            &k.adaptive.accept_safety};
    float x[N];
    for (size_t n = 0; n < sizeof each / sizeof *each; n++)
        for (int b = 0; b < 4; b++) {
            double was = *each[n];
            *each[n] = bad[b];
            CHECK_INT(sample("dpm_adaptive", &k, x), GRAFT_E_ARG);
            CHECK_INT(calls, 0);
            *each[n] = was;
        }
    k.adaptive.h_init = 0;
    CHECK_INT(sample("dpm_adaptive", &k, x), GRAFT_E_ARG);
    k = adaptive_numbers(&adaptive_cases[0]);
    k.adaptive.rtol = k.adaptive.atol = 0;
    CHECK_INT(sample("dpm_adaptive", &k, x), GRAFT_E_ARG);
    k = adaptive_numbers(&adaptive_cases[0]);
    k.adaptive.icoeff = 0, k.adaptive.accept_safety = 1.1; /* all steps are alike */
    CHECK_INT(sample("dpm_adaptive", &k, x), GRAFT_E_ARG);
    CHECK(calls > 0 && strstr(e.text, "accept_safety 1.1"));
    k.adaptive.accept_safety = 1;
    CHECK_OK(sample("dpm_adaptive", &k, x), &e);
}

/* ------------------------------------------------------------------ sa_solver */

#define FINE 12

static graft_sampler_numbers sa_numbers(const struct sa_case *c)
{
    graft_sampler_numbers k = NUMBERS(c->eta, c->s_noise, 0.5, 4, false);
    k.sa.predictor = c->predictor, k.sa.corrector = c->corrector;
    k.sa.pece = c->pece, k.sa.simple = c->simple;
    return k;
}

static graft_status sample_sa(const char *name, const struct sa_case *c,
                              const graft_sampler_numbers *k, float *x)
{
    float fine[FINE + 1] = {0};
    for (int i = 0; i < FINE; i++) fine[i] = (float)(10 * pow(0.02, i / (FINE - 1.0)));
    return sample_along(name, k, x, fine, FINE + (size_t)c->to_zero, (float)c->from, (float)c->to);
}

/* As tools/golden_numbers.py has it. The first two cases are the usual numbers of sa_solver and
 * sa_solver_pece. */
static void adams_of_all_orders(void)
{
    for (size_t i = 0; i < sizeof sa_cases / sizeof *sa_cases; i++) {
        const struct sa_case *c = &sa_cases[i];
        const graft_sampler_numbers k = sa_numbers(c);
        float x[N], usual[N];
        double worst = 0;
        CHECK_OK(sample_sa("sa_solver", c, &k, x), &e);
        CHECK_INT(calls, c->calls);
        for (int j = 0; j < N; j++) worst = further(worst, x[j], c->x[j]);
        if (!(worst < 2e-5)) fprintf(stderr, "sa_solver, case %zu: %g\n", i, worst);
        CHECK(worst < 2e-5);
        if (i > 1) continue;
        CHECK_OK(sample_sa(i ? "sa_solver_pece" : "sa_solver", c, NULL, usual), &e);
        CHECK(memcmp(x, usual, sizeof x) == 0);
    }
}

/* Steps so short that little is left of the integrals' usual form: more orders change nothing. */
static void short_steps_of_a_high_order(void)
{
    enum { SHORT = 200 };
    static float steps[SHORT];
    const graft_sampler_numbers high = {
        .s_noise = 1, .r = 0.5, .order = 4, .sa = {.predictor = 6, .corrector = 6}};
    const graft_sampler_numbers low = {
        .s_noise = 1, .r = 0.5, .order = 4, .sa = {.predictor = 4, .corrector = 4}};
    float a[N], b[N];
    for (int i = 0; i < SHORT; i++) steps[i] = (float)(10 * pow(0.98, i / (SHORT - 1.0)));
    CHECK_OK(sample_along("sa_solver", &high, a, steps, SHORT, 0, 0), &e);
    CHECK_OK(sample_along("sa_solver", &low, b, steps, SHORT, 0, 0), &e);
    for (int i = 0; i < N; i++) CHECK_NEAR(a[i], b[i], 1e-3);
}

static void orders_that_are_not_there(void)
{
    static const int bad[][2] = {{0, 4}, {7, 4}, {3, -1}, {3, 7}};
    float x[N];
    for (int i = 0; i < 4; i++) {
        graft_sampler_numbers k = sa_numbers(&sa_cases[0]);
        k.sa.predictor = bad[i][0], k.sa.corrector = bad[i][1];
        CHECK_INT(sample("sa_solver", &k, x), GRAFT_E_ARG);
        CHECK_INT(calls, 0);
    }
}

static void what_is_wrong_is_refused(void)
{
    static const graft_sampler_numbers bad[] = {
        NUMBERS(-1, 1, 0.5, 4, false),       NUMBERS(NAN, 1, 0.5, 4, false),
        NUMBERS(INFINITY, 1, 0.5, 4, false), NUMBERS(1, -1, 0.5, 4, false),
        NUMBERS(1, NAN, 0.5, 4, false),      NUMBERS(1, INFINITY, 0.5, 4, false),
        NUMBERS(1, 1, 0, 4, false),          NUMBERS(1, 1, NAN, 4, false)};
    static const graft_sampler_numbers usual = NUMBERS(1, 1, 0.5, 4, false);
    float x[N];
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        CHECK_INT(sample("dpmpp_sde", &bad[i], x), GRAFT_E_ARG);
    CHECK_INT(sample("lms", &(graft_sampler_numbers)NUMBERS(1, 1, 0.5, 5, false), x),
              GRAFT_E_UNSUPPORTED);
    CHECK_INT(sample("lms", &(graft_sampler_numbers)NUMBERS(1, 1, 0.5, 0, false), x),
              GRAFT_E_UNSUPPORTED);
    CHECK_INT(sample("heun", &usual, x), GRAFT_E_UNSUPPORTED);
    CHECK(!graft_sampler_takes_numbers("heun") && !graft_sampler_takes_numbers("none"));
}

/* All noise there is: the state is replaced by the prediction and new noise. */
static void more_noise_than_there_is(void)
{
    static const graft_sampler_numbers most = NUMBERS(100, 1, 0.5, 4, false);
    for (int s = 0; s < SAMPLERS; s++) {
        float x[N];
        CHECK_OK(sample(samplers[s].name, &most, x), &e);
        for (int i = 0; i < N; i++) CHECK(isfinite(x[i]));
    }
    float x[N], from[N];
    start(from);
    CHECK_OK(sample("euler_ancestral", &most, x), &e);
    for (int i = 0; i < N; i++) CHECK_NEAR(x[i], euler_ancestral(&most, from[i], i), 2e-5);
}

int main(void)
{
    for (int i = 0; i < STEPS; i++) sigma[i] = (float)(10 * pow(0.02, i / (STEPS - 1.0)));
    RUN(as_their_authors_write_them);
    RUN(usual_ones);
    RUN(one_becomes_another);
    RUN(stages_and_scales);
    RUN(more_stages_are_closer);
    RUN(adaptive_steps);
    RUN(adaptive_numbers_without_a_meaning);
    RUN(adams_of_all_orders);
    RUN(short_steps_of_a_high_order);
    RUN(orders_that_are_not_there);
    RUN(what_is_wrong_is_refused);
    RUN(more_noise_than_there_is);
    return test_end();
}
