/* Changes of guidance: their formulas against golden/guidance, and in a model's sampling. */
#include <math.h>

#include "engine/denoise/cfg_changes.h"
#include "tests/engine/guided_call.h"

#define GOLDEN GRAFT_SOURCE_DIR "/golden/guidance/cfg.safetensors"

static graft_engine *engine;
static graft_model *model;
static graft_cond *prompt[3];

static graft_model *changed(const graft_model *m, graft_cfg_change change)
{
    graft_model *out = NULL;
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(graft_model_change_cfg(m, &change, &out, &e), &e);
    return out;
}

/* ------------------------------------------------------------------ formulas */

/* As tools/golden_cfg.py has them. */
#define GOLDEN_CFG 6.5
static const struct formula {
    const char *name;
    graft_cfg_change change;
} formulas[] = {
    {"projected", {GRAFT_CFG_PROJECTED, 0.25, 0, 0}},
    {"limited", {GRAFT_CFG_PROJECTED, 1, 5, 0}},
    {"slowed", {GRAFT_CFG_PROJECTED, -0.5, 40, -0.5}},
    {"tangential", {GRAFT_CFG_TANGENTIAL, 0, 0, 0}},
    {"renormed", {GRAFT_CFG_RENORMED, 1.25, 2, 0}},
    {"zero_star", {GRAFT_CFG_ZERO_STAR, 0, 0, 0}},
    {"normed", {GRAFT_CFG_NORMED, 0.875, 0, 0}},
    {"similar", {GRAFT_CFG_SIMILAR, 0, 0, 0}},
};

static float *golden_values(const graft_safetensors *f, int k, const char *name,
                            const graft_st_tensor **t)
{
    char full[64];
    snprintf(full, sizeof full, "case%d.%s", k, name);
    *t = graft_safetensors_find(f, full);
    CHECK(*t != NULL);
    return *t ? values_of(*t) : NULL;
}

static void run_formula(graft_cfg_changes *k, const graft_safetensors *f, int i, const char *name)
{
    const graft_st_tensor *t;
    float *x = golden_values(f, i, "x", &t), *p = golden_values(f, i, "positive", &t);
    float *n = golden_values(f, i, "negative", &t), *sigma = golden_values(f, i, "sigma", &t);
    float *want = golden_values(f, i, name, &t);
    const size_t values = (size_t)shape_count(t->shape, t->rank);
    float *got = graft_malloc_array(values, sizeof *got);
    const graft_cfg_call now = {sigma[0], x, p, n};
    graft_cfg_changes_before(k, &now);
    for (size_t v = 0; v < values; v++)
        got[v] = (float)(n[v] + GOLDEN_CFG * ((double)p[v] - (double)n[v]));
    graft_cfg_changes_after(k, &now, got);
    CHECK(difference(got, want, values) < 2e-5);
    free(x), free(p), free(n), free(sigma), free(want);
    graft_free(got);
}

static void are_those_of_the_papers(void)
{
    graft_safetensors *f = open_file(GOLDEN);
    const graft_st_tensor *t = graft_safetensors_find(f, "case0.x");
    graft_err e = GRAFT_ERR_INIT;
    for (size_t i = 0; i < sizeof formulas / sizeof *formulas; i++) {
        graft_model *m = changed(model, formulas[i].change);
        graft_guided_config c = {.model = m, .cfg = GOLDEN_CFG};
        graft_cfg_changes *k = NULL;
        memcpy(c.shape, t->shape, sizeof c.shape);
        CHECK_OK(graft_cfg_changes_create(&c, &k, &e), &e);
        for (int n = 0; n < 3; n++) run_formula(k, f, n, formulas[i].name);
        graft_cfg_changes_destroy(k);
        graft_model_release(m);
    }
    graft_safetensors_close(f);
}

/* Of all directions the one that is kept is that along which the two differences are longest. */
static void tangents_are_damped(void)
{
    static const float points[][4] = {{1, 2, 3, 0.5f}, {2, 0, 0, 1}, {0, 1, 3, 0}, {1, 1, 1, -1},
                                      {1, 1, -1, -1},  {0, 0, 2, 1}, {1, 0, 0, 0}, {-1, 2, 2, -4}};
    graft_model *m = changed(model, (graft_cfg_change){.kind = GRAFT_CFG_TANGENTIAL});
    const graft_guided_config c = {.model = m, .cfg = 3, .shape = {1, 2, 1, 1}};
    graft_err e = GRAFT_ERR_INIT;
    for (size_t i = 0; i < sizeof points / sizeof *points; i++) {
        const float *v = points[i]; /* x - N, x - P */
        float x[2] = {0}, p[2] = {-v[2], -v[3]}, n[2] = {-v[0], -v[1]};
        double most = -1, angle = 0;
        graft_cfg_changes *k = NULL;
        for (int a = 0; a < 180000; a++) {
            const double to = a * M_PI / 180000, ca = cos(to), sa = sin(to);
            const double first = (double)v[0] * ca + (double)v[1] * sa;
            const double second = (double)v[2] * ca + (double)v[3] * sa;
            if (first * first + second * second > most + 1e-9) {
                most = first * first + second * second;
                angle = to;
            }
        }
        CHECK_OK(graft_cfg_changes_create(&c, &k, &e), &e);
        graft_cfg_changes_before(k, &(const graft_cfg_call){1, x, p, n});
        const double along = (double)v[0] * cos(angle) + (double)v[1] * sin(angle);
        const bool any = fabs((double)v[0] * v[2] + (double)v[1] * v[3]) < 1e-6 &&
                         fabs(hypot(v[0], v[1]) - hypot(v[2], v[3])) < 1e-6;
        CHECK(isfinite(n[0]) && isfinite(n[1]));
        CHECK(any ||
              (fabs(-n[0] - along * cos(angle)) < 1e-3 && fabs(-n[1] - along * sin(angle)) < 1e-3));
        CHECK(p[0] == -v[2] && p[1] == -v[3]);
        graft_cfg_changes_destroy(k);
    }
    graft_model_release(m);
}

/* Predictions of nothing but zeros, as where a prompt has no part of the latent. */
static void zeros_stay_finite(void)
{
    for (size_t i = 0; i < sizeof formulas / sizeof *formulas; i++) {
        graft_model *m = changed(model, formulas[i].change);
        const graft_guided_config c = {.model = m, .cfg = 3, .shape = {1, 2, 1, 2}};
        float x[4] = {0}, p[4] = {0}, n[4] = {0}, d[4] = {0};
        graft_cfg_changes *k = NULL;
        graft_err e = GRAFT_ERR_INIT;
        CHECK_OK(graft_cfg_changes_create(&c, &k, &e), &e);
        const graft_cfg_call now = {1, x, p, n};
        graft_cfg_changes_before(k, &now);
        graft_cfg_changes_after(k, &now, d);
        for (int v = 0; v < 4; v++) CHECK(p[v] == 0 && n[v] == 0 && d[v] == 0);
        graft_cfg_changes_destroy(k);
        graft_model_release(m);
    }
}

/* ------------------------------------------------------------------ of a model */

/* What a model's changes make of the two predictions, one by one. */
static void by_hand(const graft_model *m, double cfg, float *out)
{
    float p[N], n[N], x[N];
    const one_call place = {m, NULL, NULL, 0, {1, 4, H, W}, NULL, NULL, 0};
    const graft_guided_config c = {.model = m, .cfg = cfg, .shape = {1, 4, H, W}};
    graft_cfg_changes *k = NULL;
    graft_err e = GRAFT_ERR_INIT;
    alone(model, prompt[0], p);
    alone(model, prompt[1], n);
    noise_of(&place, x);
    CHECK_OK(graft_cfg_changes_create(&c, &k, &e), &e);
    const graft_cfg_call now = {SIGMA, x, p, n};
    graft_cfg_changes_before(k, &now);
    for (int i = 0; i < N; i++) out[i] = n[i] + (float)cfg * (p[i] - n[i]);
    graft_cfg_changes_after(k, &now, out);
    graft_cfg_changes_destroy(k);
}

static void sampling_has_them(void)
{
    float plain[N], got[N], want[N];
    two(model, prompt[0], prompt[1], 4, plain);
    for (size_t i = 0; i < sizeof formulas / sizeof *formulas; i++) {
        graft_model *m = changed(model, formulas[i].change);
        two(m, prompt[0], prompt[1], 4, got);
        by_hand(m, 4, want);
        CHECK(difference(got, want, N) < 1e-4);
        if (strcmp(formulas[i].name, "renormed") != 0) CHECK(difference(got, plain, N) > 1e-3);
        graft_model_release(m);
    }
}

/* Those of the predictions come first, whatever was said first. */
static void several_are_one_after_the_other(void)
{
    graft_model *zero = changed(model, (graft_cfg_change){.kind = GRAFT_CFG_ZERO_STAR});
    graft_model *both = changed(zero, (graft_cfg_change){.kind = GRAFT_CFG_TANGENTIAL});
    graft_model *damped = changed(model, (graft_cfg_change){.kind = GRAFT_CFG_TANGENTIAL});
    graft_model *other = changed(damped, (graft_cfg_change){.kind = GRAFT_CFG_ZERO_STAR});
    graft_model *normed = changed(other, (graft_cfg_change){GRAFT_CFG_NORMED, 0.5, 0, 0});
    float a[N], b[N], got[N], want[N];
    two(both, prompt[0], prompt[1], 4, a);
    two(other, prompt[0], prompt[1], 4, b);
    CHECK(memcmp(a, b, sizeof a) == 0);
    two(zero, prompt[0], prompt[1], 4, b);
    CHECK(difference(a, b, N) > 1e-3);
    two(normed, prompt[0], prompt[1], 4, got);
    by_hand(normed, 4, want);
    CHECK(difference(got, want, N) < 1e-4);
    graft_model_release(zero);
    graft_model_release(both);
    graft_model_release(damped);
    graft_model_release(other);
    graft_model_release(normed);
}

/* With a cfg of 1 there is one prediction; strengths are of the result. */
static void without_guidance(void)
{
    float plain[N], got[N];
    alone(model, prompt[0], plain);
    for (size_t i = 0; i < sizeof formulas / sizeof *formulas; i++) {
        graft_model *m = changed(model, formulas[i].change);
        alone(m, prompt[0], got);
        const bool scaled = formulas[i].change.kind == GRAFT_CFG_NORMED;
        for (int v = 0; v < N && scaled; v++) got[v] /= 0.875f;
        CHECK(difference(got, plain, N) < 1e-6);
        graft_model_release(m);
    }
}

/* A cfg of 0 is the negative prompt alone, by which no formula divides. */
static void with_a_cfg_of_0(void)
{
    float n[N], got[N];
    alone(model, prompt[1], n);
    for (size_t i = 0; i < sizeof formulas / sizeof *formulas; i++) {
        graft_model *m = changed(model, formulas[i].change);
        two(m, prompt[0], prompt[1], 0, got);
        for (int v = 0; v < N; v++) CHECK(isfinite(got[v]));
        if (formulas[i].change.kind == GRAFT_CFG_PROJECTED) CHECK(difference(got, n, N) < 1e-6);
        graft_model_release(m);
    }
}

/* Steps that go on have momentum; calls at the same place add up. */
static void momentum_lasts_a_run(void)
{
    graft_model *m = changed(model, (graft_cfg_change){GRAFT_CFG_PROJECTED, 1, 0, 0.5});
    float p[N], n[N], got[N], want[N];
    alone(model, prompt[0], p);
    alone(model, prompt[1], n);
    for (int calls = 1; calls <= 3; calls++) {
        const float sum = calls == 1 ? 1 : calls == 2 ? 1.5f : 1.75f;
        denoise_by(
            &(const call){
                .model = m, .positive = prompt[0], .negative = prompt[1], .cfg = 4, .calls = calls},
            got);
        for (int i = 0; i < N; i++) want[i] = p[i] + 4 * sum * (p[i] - n[i]);
        CHECK(difference(got, want, N) < 1e-4);
    }
    graft_model_release(m);
}

/* What else changes guidance goes with them: a rescale before, perturbed attention behind. */
static void with_the_rest_of_guidance(void)
{
    graft_model *pag = NULL, *rescaled = NULL;
    graft_err e = GRAFT_ERR_INIT;
    float plain[N], with[N], want[N], got[N];
    CHECK_OK(graft_model_perturbed_attention(model, 2, &pag, &e), &e);
    CHECK_OK(graft_model_rescale_cfg(model, 0.7, &rescaled, &e), &e);
    graft_model *m = changed(model, (graft_cfg_change){.kind = GRAFT_CFG_ZERO_STAR});
    graft_model *both = changed(pag, (graft_cfg_change){.kind = GRAFT_CFG_ZERO_STAR});
    two(model, prompt[0], prompt[1], 4, plain);
    two(pag, prompt[0], prompt[1], 4, with);
    two(m, prompt[0], prompt[1], 4, want);
    two(both, prompt[0], prompt[1], 4, got);
    for (int i = 0; i < N; i++) want[i] += with[i] - plain[i];
    CHECK(difference(got, want, N) < 1e-4);
    graft_model_release(both);
    both = changed(rescaled, (graft_cfg_change){GRAFT_CFG_NORMED, 0.25, 0, 0});
    two(rescaled, prompt[0], prompt[1], 1.5, want);
    two(both, prompt[0], prompt[1], 1.5, got);
    float p[N];
    alone(model, prompt[0], p);
    for (int i = 0; i < H * W; i++) {
        double of_p = 0, of_d = 0;
        for (int k = i; k < N; k += H * W) {
            of_p += (double)p[k] * p[k];
            of_d += (double)want[k] * want[k];
        }
        for (int k = i; k < N; k += H * W) want[k] *= (float)(0.25 * fmin(1, sqrt(of_p / of_d)));
    }
    CHECK(difference(got, want, N) < 1e-4);
    graft_model_release(both);
    graft_model_release(m);
    graft_model_release(pag);
    graft_model_release(rescaled);
}

/* ------------------------------------------------------------------ operations */

#define OPERATIONS GRAFT_SOURCE_DIR "/golden/pictures/operations.safetensors"

static graft_model *operated(const graft_model *m, graft_latent_operation o, double start,
                             double end)
{
    graft_model *out = NULL;
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(graft_model_operate_cfg(m, &o, start, end, &out, &e), &e);
    return out;
}

static float *operation_values(const graft_safetensors *f, int k, const char *name,
                               const graft_st_tensor **t)
{
    char full[64];
    snprintf(full, sizeof full, "operation%d.%s", k, name);
    *t = graft_safetensors_find(f, full);
    CHECK(*t != NULL);
    return *t ? values_of(*t) : NULL;
}

/* On the difference of two predictions, or on one, as tools/golden_operations.py has it. */
static void operations_of_predictions(void)
{
    graft_safetensors *f = open_file(OPERATIONS);
    for (int k = 0; k < 8; k++) {
        const graft_st_tensor *t;
        graft_err e = GRAFT_ERR_INIT;
        float *v = operation_values(f, k, "numbers", &t);
        const graft_latent_operation o = {v[0] > 0 ? GRAFT_OPERATION_SHARPEN
                                                   : GRAFT_OPERATION_TONEMAP,
                                          (double)v[1], (int64_t)v[2], (double)v[3], (double)v[4]};
        float *want = operation_values(f, k, "guided", &t);
        float *one = operation_values(f, k, "output", &t);
        float *p = operation_values(f, k, "samples", &t);
        float *n = operation_values(f, k, "negative", &t);
        const size_t values = (size_t)shape_count(t->shape, t->rank);
        graft_model *m = operated(model, o, 0, 1);
        graft_guided_config c = {.model = m, .cfg = 3.5};
        graft_cfg_changes *changes = NULL;
        memcpy(c.shape, t->shape, sizeof c.shape);
        CHECK_OK(graft_cfg_changes_create(&c, &changes, &e), &e);
        CHECK(graft_cfg_changes_look(changes));
        graft_cfg_changes_before(changes, &(const graft_cfg_call){1, p, p, n});
        for (size_t i = 0; i < values; i++) p[i] = n[i] + 3.5f * (p[i] - n[i]);
        CHECK(difference(p, want, values) < 2e-5);
        free(p);
        p = operation_values(f, k, "samples", &t);
        graft_cfg_changes_before(changes, &(const graft_cfg_call){1, p, p, NULL});
        CHECK(difference(p, one, values) < 2e-5);
        graft_cfg_changes_destroy(changes);
        graft_model_release(m);
        free(p), free(n), free(want), free(one), free(v);
    }
    graft_safetensors_close(f);
}

static const graft_latent_operation tones = {.kind = GRAFT_OPERATION_TONEMAP, .multiplier = 0.3};
static const graft_latent_operation edges = {
    .kind = GRAFT_OPERATION_SHARPEN, .radius = 3, .sigma = 1, .alpha = 0.2};

static void operate_here(const graft_latent_operation *o, float *v)
{
    const int64_t shape[4] = {1, 4, H, W};
    graft_latent *l = NULL, *out = NULL;
    int64_t same[4];
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(graft_latent_from_data(v, shape, &l, &e), &e);
    CHECK_OK(graft_latent_operate(l, o, &out, &e), &e);
    memcpy(v, graft_latent_data(out, same), N * sizeof *v);
    graft_latent_release(l);
    graft_latent_release(out);
}

/* A model's, one behind the other, with and without guidance; another change goes on from there. */
static void sampling_has_operations(void)
{
    graft_model *m = operated(model, tones, 0, 1), *both = operated(m, edges, 0, 1);
    graft_model *normed = changed(both, (graft_cfg_change){GRAFT_CFG_NORMED, 0.5, 1, 0});
    float p[N], n[N], got[N], want[N];
    alone(model, prompt[0], p);
    alone(model, prompt[1], n);
    memcpy(want, p, sizeof want);
    operate_here(&tones, want);
    operate_here(&edges, want);
    alone(both, prompt[0], got);
    CHECK(difference(got, want, N) < 1e-5 && difference(got, p, N) > 1e-2);
    for (int i = 0; i < N; i++) want[i] = p[i] - n[i];
    operate_here(&tones, want);
    operate_here(&edges, want);
    for (int i = 0; i < N; i++) want[i] = n[i] + 4 * want[i];
    two(both, prompt[0], prompt[1], 4, got);
    CHECK(difference(got, want, N) < 1e-4);
    two(normed, prompt[0], prompt[1], 4, got);
    by_hand(normed, 4, want);
    CHECK(difference(got, want, N) < 1e-4);
    graft_model_release(normed);
    graft_model_release(both);
    graft_model_release(m);
}

/* Between two shares of the schedule, both included. */
static void operations_have_their_time(void)
{
    graft_sigma_table table;
    graft_model_sigma_table(model, &table);
    double share = 0;
    while (graft_percent_to_sigma(&table, share) > SIGMA) share += 1e-3;
    const double time[][3] = {{0, 1, 1},
                              {0, share + 0.01, 1},
                              {share - 0.01, 1, 1},
                              {share + 0.01, 1, 0},
                              {0, share - 0.01, 0},
                              {1, 0, 0}};
    float plain[N], changes[N], got[N];
    graft_model *m = operated(model, tones, 0, 1);
    alone(model, prompt[0], plain);
    alone(m, prompt[0], changes);
    CHECK(share > 0.02 && share < 0.98 && memcmp(plain, changes, sizeof plain) != 0);
    graft_model_release(m);
    for (size_t i = 0; i < sizeof time / sizeof *time; i++) {
        m = operated(model, tones, time[i][0], time[i][1]);
        alone(m, prompt[0], got);
        CHECK(memcmp(got, time[i][2] > 0 ? changes : plain, sizeof got) == 0);
        graft_model_release(m);
    }
}

static void operations_that_do_not_go(void)
{
    static const double shares[][2] = {{-0.1, 1}, {0, 1.1}, {NAN, 1}, {0, NAN}};
    graft_latent_operation wide = edges;
    graft_model *out = NULL, *m;
    graft_err e = GRAFT_ERR_INIT;
    float d[N];
    for (int i = 0; i < 4; i++)
        CHECK_INT(graft_model_operate_cfg(model, &tones, shares[i][0], shares[i][1], &out, &e),
                  GRAFT_E_ARG);
    wide.radius = 0;
    CHECK_INT(graft_model_operate_cfg(model, &wide, 0, 1, &out, &e), GRAFT_E_ARG);
    CHECK_INT(graft_model_change_cfg(model, &(const graft_cfg_change){.kind = GRAFT_CFG_OPERATED},
                                     &out, &e),
              GRAFT_E_ARG);
    wide.radius = H;
    m = operated(model, wide, 0, 1);
    const call c = {.model = m, .positive = prompt[0], .negative = prompt[1], .cfg = 4, .calls = 1};
    CHECK_INT(try_call(&c, d, &e), GRAFT_E_ARG);
    CHECK(strstr(e.text, "too small to sharpen") != NULL);
    graft_model_release(m);
}

static void what_does_not_go(void)
{
    static const graft_cfg_change bad[] = {{GRAFT_CFG_PROJECTED, NAN, 0, 0},
                                           {GRAFT_CFG_PROJECTED, 1, -1, 0},
                                           {GRAFT_CFG_PROJECTED, 1, 0, INFINITY},
                                           {GRAFT_CFG_NORMED, -1, 0, 0},
                                           {GRAFT_CFG_RENORMED, 1, INFINITY, 0}};
    graft_model *out = NULL, *m = graft_model_retain(model);
    graft_err e = GRAFT_ERR_INIT;
    float d[N];
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        CHECK_INT(graft_model_change_cfg(model, &bad[i], &out, &e), GRAFT_E_ARG);
    for (int i = 0; i < GRAFT_CFG_CHANGES; i++) {
        graft_model *next = changed(m, (graft_cfg_change){.kind = GRAFT_CFG_ZERO_STAR});
        graft_model_release(m);
        m = next;
    }
    CHECK_INT(graft_model_change_cfg(m, &formulas[3].change, &out, &e), GRAFT_E_LIMIT);
    CHECK(!out);
    const call c = {.model = m,
                    .positive = prompt[0],
                    .negative = prompt[1],
                    .third = {prompt[2], GRAFT_THIRD_DUAL, 1.5},
                    .cfg = 4,
                    .calls = 1};
    CHECK_INT(try_call(&c, d, &e), GRAFT_E_UNSUPPORTED);
    CHECK(strstr(e.text, "CFGZeroStar") != NULL);
    graft_model_release(m);
}

int main(void)
{
    engine = make_engine("ref");
    model = load_model(engine, SD1);
    for (int i = 0; i < 3; i++) prompt[i] = place_prompt(model, 1 + (uint64_t)i, TOKENS);
    RUN(are_those_of_the_papers);
    RUN(tangents_are_damped);
    RUN(zeros_stay_finite);
    RUN(sampling_has_them);
    RUN(several_are_one_after_the_other);
    RUN(without_guidance);
    RUN(with_a_cfg_of_0);
    RUN(momentum_lasts_a_run);
    RUN(with_the_rest_of_guidance);
    RUN(operations_of_predictions);
    RUN(sampling_has_operations);
    RUN(operations_have_their_time);
    RUN(operations_that_do_not_go);
    RUN(what_does_not_go);
    for (int i = 0; i < 3; i++) graft_cond_release(prompt[i]);
    graft_model_release(model);
    graft_engine_destroy(engine);
    return test_end();
}
