/* Models that are told any sigma: what the network is given and what becomes of its output, against
 * the formulas of Karras et al. 2022 (table 1) in double around runs of the UNet; and what changes
 * a model from one kind of sampling to the other. */
#include <math.h>

#include "engine/denoise/sample.h"
#include "tests/engine/guided_call.h"
#include "tests/engine/merge.h"

enum { WORDS = 7 };

static graft_engine *engine;

static graft_model *continuous(const graft_model *m, const char *kind, bool angle, double high,
                               double low)
{
    const graft_continuous_options o = {kind, angle, high, low};
    graft_model *out = NULL;
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(graft_model_sampling_continuous(m, &o, &out, &e), &e);
    return out;
}

/* F(scale x; told). */
static void network(const graft_model *m, const graft_cond *c, const float *x, double scale,
                    double told, float *out)
{
    float in[N], t = (float)told;
    graft_err e = GRAFT_ERR_INIT;
    graft_binding *b = NULL;
    for (int i = 0; i < N; i++) in[i] = (float)(scale * x[i]);
    CHECK_OK(graft_model_bind(m, 1, H, W, WORDS, NULL, &b, &e), &e);
    CHECK_OK(graft_exe_run(b, engine->arenas, (const void *[]){in, &t, c->entry[0]->data},
                           (void *[]){out}, NULL, NULL, &e),
             &e);
    graft_binding_release(b);
}

/* c_skip, c_out: what D is of x and of F; c_in: what F sees of x; c_noise: what it is told. */
typedef struct terms {
    double skip, out, in, noise;
} terms;

static terms terms_at(const char *kind, bool angle, double s)
{
    const double d = strcmp(kind, "edm") == 0 ? 0.5 : 1, all = s * s + d * d;
    const double noise = angle ? atan(s) * 2 / acos(-1) : log(s) / 4;
    if (strcmp(kind, "eps") == 0) return (terms){1, -s, 1 / sqrt(all), noise};
    const double out = s * d / sqrt(all);
    return (terms){d * d / all, strcmp(kind, "edm") == 0 ? out : -out, 1 / sqrt(all), noise};
}

static void preconditioning(void)
{
    static const struct {
        const char *kind;
        bool angle;
    } cases[] = {{"eps", false}, {"v_prediction", false}, {"edm", false}, {"v_prediction", true}};
    static const float sigmas[] = {90, 3, 0.4f, 0.01f};
    graft_model *m = load_model(engine, SD1);
    graft_cond *c = place_prompt(m, 3, WORDS);
    graft_err e = GRAFT_ERR_INIT;
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        graft_model *n = continuous(m, cases[k].kind, cases[k].angle, 120, 0.002);
        for (size_t i = 0; i < sizeof sigmas / sizeof *sigmas; i++) {
            const terms t = terms_at(cases[k].kind, cases[k].angle, sigmas[i]);
            const one_call at = {n, c, c, 1, {1, 4, H, W}, NULL, NULL, 0};
            float x[N], f[N], got[N];
            double most = 0, worst = 0;
            for (int v = 0; v < N; v++) x[v] = (1 + sigmas[i]) * fixed_value(50 + (uint64_t)v);
            CHECK_OK(try_denoise_at(&at, x, sigmas[i], got, &e), &e);
            network(m, c, x, t.in, t.noise, f);
            for (int v = 0; v < N; v++) {
                const double want = t.skip * x[v] + t.out * f[v];
                most = fmax(most, fabs(want));
                worst = fmax(worst, fabs(want - got[v]));
            }
            CHECK(worst < 2e-5 * most);
        }
        graft_model_release(n);
    }
    graft_cond_release(c);
    graft_model_release(m);
}

/* Its schedule is its own, and the last word on sampling counts. */
static void schedules(void)
{
    graft_sigma_table t;
    graft_err e = GRAFT_ERR_INIT;
    graft_model *m = load_model(engine, SD1), *back = NULL, *flow = NULL;
    graft_model *n = continuous(m, "v_prediction", false, 120, 0.002);
    graft_sigmas *s = NULL;
    size_t count;
    CHECK_OK(graft_sigmas_from_model(n, "normal", 2, 1, &s, &e), &e);
    const float *v = graft_sigmas_data(s, &count);
    CHECK(count == 3 && v[2] == 0);
    CHECK_NEAR(v[0], 120, 1e-3);
    CHECK_NEAR(v[1], 0.002, 1e-7);
    graft_sigmas_release(s);
    CHECK_OK(graft_model_sampling(n, "eps", false, &back, &e), &e);
    graft_model_sigma_table(back, &t);
    CHECK_NEAR(t.sigma[999], 14.6146, 1e-3);
    CHECK_OK(graft_model_sampling_flow(n, 3, false, &flow, &e), &e);
    graft_model_sigma_table(flow, &t);
    CHECK(t.sigma[999] == 1);
    RELEASE_ALL(back, flow);
    flow = NULL;
    CHECK_OK(graft_model_sampling_flow(m, 3, false, &flow, &e), &e);
    back = continuous(flow, "eps", true, 500, 0.03);
    graft_model_sigma_table(back, &t);
    CHECK_NEAR(t.sigma[999], 500, 1e-2);
    RELEASE_ALL(m, n, back, flow);
}

static void refused(const graft_model *m, graft_continuous_options o, graft_status want,
                    const char *words)
{
    graft_model *out = NULL;
    graft_err e = GRAFT_ERR_INIT;
    CHECK_INT(graft_model_sampling_continuous(m, &o, &out, &e), want);
    CHECK(strstr(e.text, words) != NULL);
    CHECK(!out);
}

static void refusals(void)
{
    graft_model *m = load_model(engine, SD1);
    graft_model *sd3 = load_model(engine, GRAFT_SOURCE_DIR "/golden/small/mmdit_sd3.safetensors");
    refused(m, (graft_continuous_options){"x0", false, 120, 1}, GRAFT_E_UNSUPPORTED, "x0");
    refused(m, (graft_continuous_options){"eps", false, 120, 0}, GRAFT_E_ARG, "sigma_min");
    refused(m, (graft_continuous_options){"eps", false, 1, 1}, GRAFT_E_ARG, "sigma_max");
    refused(m, (graft_continuous_options){"eps", false, NAN, 1}, GRAFT_E_ARG, "sigma_max");
    refused(m, (graft_continuous_options){"eps", false, INFINITY, 1}, GRAFT_E_ARG, "sigma_max");
    refused(sd3, (graft_continuous_options){"eps", false, 120, 1}, GRAFT_E_UNSUPPORTED,
            "transformer");
    RELEASE_ALL(m, sd3);
}

int main(void)
{
    engine = make_engine("cpu");
    RUN(preconditioning);
    RUN(schedules);
    RUN(refusals);
    graft_engine_destroy(engine);
    return test_end();
}
