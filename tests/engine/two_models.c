/* Guidance by two models, and another cfg in a part of the steps: both against the same steps taken
 * by hand with runs of the networks alone. */
#include "engine/cfg.h"
#include "engine/denoise/two_models.h"
#include "engine/sigmas.h"
#include "tests/engine/network_changes.h"

static graft_engine *engine;
static graft_model *first, *other;
static graft_cond *prompt, *none, *more;

#define TWO GRAFT_SOURCE_DIR "/golden/small/ideogram4_two.safetensors"
#define ONE GRAFT_SOURCE_DIR "/golden/small/ideogram4_one.safetensors"

enum { VALUES = 12 * SIDE * SIDE, WORDS = 7, MORE = 40, FILLED = 64, WIDTH = 65 };

static void evaluate(const graft_model *m, uint64_t seed, int words, const float *x, float t,
                     float out[VALUES])
{
    static float context[FILLED * WIDTH];
    const float y = (float)words;
    graft_binding *b = NULL;
    graft_err e = GRAFT_ERR_INIT;
    memset(context, 0, sizeof context);
    for (int i = 0; i < words * WIDTH; i++) context[i] = fixed_value(seed + (uint64_t)i);
    graft_status st = graft_model_bind(m, 1, SIDE, SIDE, FILLED, NULL, &b, &e);
    if (!st)
        st = graft_exe_run(b, m->engine->arenas, (const void *[]){x, &t, context, &y},
                           (void *[]){out}, NULL, NULL, &e);
    CHECK_OK(st, &e);
    graft_binding_release(b);
}

/* Euler's steps with a cfg for each; the negative prediction is of m[1], whose prompt has so many
 * words. */
static void by_hand(const graft_model *const m[2], int words, const float cfg[STEPS],
                    float x[VALUES])
{
    static const double sigma[STEPS + 1] = {1, 0.667, 0.334, 0};
    float p[VALUES], n[VALUES];
    memset(x, 0, VALUES * sizeof *x);
    for (int i = 0; i < STEPS; i++) {
        evaluate(m[0], 20000, WORDS, x, (float)(1000 * sigma[i]), p);
        evaluate(m[1], 60000, words, x, (float)(1000 * sigma[i]), n);
        for (int k = 0; k < VALUES; k++)
            x[k] += (float)(sigma[i + 1] - sigma[i]) * (n[k] + cfg[i] * (p[k] - n[k]));
    }
}

static graft_sigmas *schedule(void)
{
    graft_err e = GRAFT_ERR_INIT;
    graft_sigmas *s = NULL;
    CHECK_OK(graft_sigmas_from_model(first, "simple", STEPS, 1, &s, &e), &e);
    return s;
}

static graft_status try_sampling(graft_sampling s, const graft_task *task, float out[VALUES],
                                 graft_err *e)
{
    graft_latent *in = NULL, *l = NULL;
    graft_sigmas *sigmas = schedule();
    int64_t shape[4] = {1, 12, SIDE, SIDE};
    s.sigmas = sigmas;
    if (!s.sampler) s.sampler = "euler";
    CHECK_OK(graft_latent_create(shape, &in, e), e);
    memset(graft_latent_writable(in), 0, VALUES * sizeof *out);
    graft_status st = graft_sample_custom(&s, in, task, &l, NULL, e);
    if (l) memcpy(out, graft_latent_data(l, shape), VALUES * sizeof *out);
    graft_latent_release(in);
    graft_latent_release(l);
    graft_sigmas_release(sigmas);
    return st;
}

static void run_sampling(graft_sampling s, float out[VALUES])
{
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(try_sampling(s, NULL, out, &e), &e);
}

static graft_model *overridden(const graft_model *m, double cfg, double start, double end)
{
    graft_err e = GRAFT_ERR_INIT;
    graft_model *out = NULL;
    CHECK_OK(graft_model_override_cfg(m, &(graft_cfg_override){cfg, start, end}, &out, &e), &e);
    return out;
}

/* ------------------------------------------------------------------ two models */

static void led_away_from_the_other(void)
{
    const graft_model *const two[2] = {first, other};
    const float cfg[STEPS] = {4, 4, 4};
    float got[VALUES], want[VALUES], alone[VALUES];
    graft_sampling s = {
        .model = first, .negative_model = other, .positive = prompt, .negative = none, .cfg = 4};
    run_sampling(s, got);
    by_hand(two, 0, cfg, want);
    CHECK(difference(got, want, VALUES) < 2e-4);
    s.negative = more;
    run_sampling(s, got);
    by_hand(two, MORE, cfg, want);
    CHECK(difference(got, want, VALUES) < 2e-4);
    s.negative = NULL; /* as zeros */
    run_sampling(s, got);
    by_hand(two, 0, cfg, want);
    CHECK(difference(got, want, VALUES) < 2e-4);
    s.negative_model = NULL;
    s.negative = none;
    run_sampling(s, alone);
    CHECK(difference(alone, want, VALUES) > 1e-3);
}

/* With a cfg of 1 the other one is not asked, whatever it would say. */
static void without_guidance(void)
{
    float got[VALUES], want[VALUES];
    graft_sampling s = {.model = first, .positive = prompt, .negative = prompt, .cfg = 1};
    run_sampling(s, want);
    s.negative_model = other;
    s.negative = none;
    run_sampling(s, got);
    CHECK(same_answers(first, got, want));
}

/* The same weights twice, and the same object twice: what one model gives. */
static void the_same_twice(void)
{
    float got[VALUES], want[VALUES];
    graft_model *again = load_model(engine, TWO);
    graft_sampling s = {.model = first, .positive = prompt, .negative = more, .cfg = 3};
    run_sampling(s, want);
    s.negative_model = first;
    run_sampling(s, got);
    CHECK(same_answers(first, got, want));
    s.negative_model = again;
    run_sampling(s, got);
    CHECK(difference(got, want, VALUES) < 1e-4);
    graft_model_release(again);
}

/* A sampler that looks at the negative prediction sees the other model's. */
static void samplers_that_ask_for_it(void)
{
    static const char *const names[] = {"euler_cfg_pp", "dpmpp_2m"};
    for (size_t i = 0; i < 2; i++) {
        float got[VALUES], want[VALUES];
        graft_sampling s = {.model = first,
                            .negative_model = other,
                            .positive = prompt,
                            .negative = none,
                            .sampler = names[i],
                            .cfg = 2};
        run_sampling(s, got);
        s.negative_model = NULL;
        run_sampling(s, want);
        CHECK(difference(got, want, VALUES) > 1e-3);
        for (size_t k = 0; k < VALUES; k++) CHECK(isfinite(got[k]));
    }
}

static void does_not_go(graft_sampling s, graft_status status, const char *words)
{
    float out[VALUES];
    graft_err e = GRAFT_ERR_INIT;
    CHECK_INT(try_sampling(s, NULL, out, &e), status);
    CHECK(strstr(e.text, words) != NULL);
    if (!strstr(e.text, words)) fprintf(stderr, "no \"%s\" in: %s\n", words, e.text);
}

static void what_does_not_go_together(void)
{
    graft_model *one = load_model(engine, ONE), *rescaled = NULL;
    graft_err e = GRAFT_ERR_INIT;
    graft_sampling s = {
        .model = first, .negative_model = one, .positive = prompt, .negative = none, .cfg = 4};
    does_not_go(s, GRAFT_E_ARG, "of another architecture");
    CHECK_OK(graft_model_rescale_cfg(first, 0.7, &rescaled, &e), &e);
    s.negative_model = other;
    s.model = rescaled;
    does_not_go(s, GRAFT_E_UNSUPPORTED, "RescaleCFG goes with one model");
    s.negative_model = rescaled;
    s.model = first;
    does_not_go(s, GRAFT_E_UNSUPPORTED, "RescaleCFG goes with one model");
    s.negative_model = other;
    s.third = (graft_third){.prompt = more, .scale = 1};
    does_not_go(s, GRAFT_E_UNSUPPORTED, "three prompts");
    RELEASE_ALL(one, rescaled);
}

static void no_memory(void)
{
    const int64_t live = live_blocks();
    const graft_sampling s = {
        .model = first, .negative_model = other, .positive = prompt, .negative = none, .cfg = 4};
    float want[VALUES], got[VALUES];
    int failed = 0;
    run_sampling(s, want);
    for (int n = 1; n < 3000; n += 1 + n / 16) {
        graft_err e = GRAFT_ERR_INIT;
        graft_latent *in = NULL, *l = NULL;
        graft_sigmas *sigmas = schedule();
        graft_sampling of = s;
        int64_t shape[4] = {1, 12, SIDE, SIDE};
        of.sigmas = sigmas;
        of.sampler = "euler";
        CHECK_OK(graft_latent_create(shape, &in, &e), &e);
        memset(graft_latent_writable(in), 0, sizeof got);
        graft_alloc_fail_at(n);
        graft_status st = graft_sample_custom(&of, in, NULL, &l, NULL, &e);
        graft_alloc_fail_at(0);
        CHECK(!st || (st == GRAFT_E_NOMEM && !l));
        failed += st != GRAFT_OK;
        if (l) memcpy(got, graft_latent_data(l, shape), sizeof got);
        CHECK(!l || same_answers(first, got, want));
        graft_latent_release(in);
        graft_latent_release(l);
        graft_sigmas_release(sigmas);
    }
    CHECK(failed > 10);
    CHECK_INT(live_blocks(), live);
}

/* ------------------------------------------------------------------ one without prompts */

/* A file that says it is the model without prompts. */
static graft_model *promptless(void)
{
    const char *path = temp_path("unconditional.safetensors");
    const char *metadata[5] = {"config", config_of(TWO), "model_type", "ideogram4_uncond", NULL};
    made_file *f = part_of_file(TWO, UNET);
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(graft_safetensors_write(path, f->tensor, f->n, metadata, 1, &e), &e);
    finish_file(f);
    graft_model *m = load_model(engine, path);
    unlink(path);
    return m;
}

static void is_given_no_prompt(void)
{
    graft_model *m = promptless();
    float got[VALUES], want[VALUES];
    CHECK(m->promptless);
    graft_sampling s = {.model = m, .positive = prompt, .negative = none, .cfg = 4};
    does_not_go(s, GRAFT_E_ARG, "the positive conditioning is a prompt");
    s = (graft_sampling){
        .model = first, .negative_model = m, .positive = prompt, .negative = more, .cfg = 4};
    does_not_go(s, GRAFT_E_ARG, "DualModelGuider has it as model_negative");
    s.negative = none;
    run_sampling(s, got);
    s.negative_model = NULL; /* whose weights are the same */
    run_sampling(s, want);
    CHECK(difference(got, want, VALUES) < 1e-4);
    graft_model_release(m);
}

/* ------------------------------------------------------------------ another cfg */

/* The three steps are at 0, a third and two thirds of the schedule. */
static void another_cfg_in_a_part(void)
{
    const graft_model *const one[2] = {first, first}, *const two[2] = {first, other};
    const float middle[STEPS] = {4, 2, 4}, end[STEPS] = {4, 2, 3};
    graft_model *m = overridden(first, 2, 0.3, 0.5), *n = overridden(m, 3, 0.6, 1);
    float got[VALUES], want[VALUES];
    graft_sampling s = {.model = m, .positive = prompt, .negative = more, .cfg = 4};
    run_sampling(s, got);
    by_hand(one, MORE, middle, want);
    CHECK(difference(got, want, VALUES) < 2e-4);
    s.model = n;
    run_sampling(s, got);
    by_hand(one, MORE, end, want);
    CHECK(difference(got, want, VALUES) < 2e-4);
    s.negative_model = other;
    run_sampling(s, got);
    by_hand(two, MORE, end, want);
    CHECK(difference(got, want, VALUES) < 2e-4);
    RELEASE_ALL(m, n);
}

/* To 1 and from 1: where nothing is guided, and where only a part is. */
static void on_and_off(void)
{
    const graft_model *const two[2] = {first, other};
    const float off[STEPS] = {4, 1, 1}, on[STEPS] = {5, 1, 1};
    graft_model *m = overridden(first, 1, 0.3, 1), *n = overridden(first, 5, 0, 0.2);
    float got[VALUES], want[VALUES];
    for (int i = 0; i < 4; i++) {
        const graft_model *const pair[2] = {first, i < 2 ? other : first};
        const graft_sampling s = {.model = i & 1 ? n : m,
                                  .negative_model = i < 2 ? other : NULL,
                                  .positive = prompt,
                                  .negative = more,
                                  .cfg = i & 1 ? 1 : 4};
        run_sampling(s, got);
        by_hand(i < 2 ? two : pair, MORE, i & 1 ? on : off, want);
        CHECK(difference(got, want, VALUES) < 2e-4);
    }
    RELEASE_ALL(m, n);
}

/* Of those that overlap the last counts. */
static void the_last_counts(void)
{
    const graft_model *const one[2] = {first, first};
    const float want_cfg[STEPS] = {2, 6, 2};
    graft_model *m = overridden(first, 2, 0, 1), *n = overridden(m, 6, 0.3, 0.4);
    float got[VALUES], want[VALUES];
    const graft_sampling s = {.model = n, .positive = prompt, .negative = more, .cfg = 4};
    run_sampling(s, got);
    by_hand(one, MORE, want_cfg, want);
    CHECK(difference(got, want, VALUES) < 3e-4);
    RELEASE_ALL(m, n);
}

static void shares_and_numbers(void)
{
    static const graft_cfg_override wrong[] = {
        {NAN, 0, 1}, {INFINITY, 0, 1}, {2, -0.1, 1}, {2, 0, 1.1}, {2, NAN, 1}};
    graft_err e = GRAFT_ERR_INIT;
    graft_model *m = NULL;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        CHECK_INT(graft_model_override_cfg(first, &wrong[i], &m, &e), GRAFT_E_ARG);
    CHECK(!m);
    graft_model *at = overridden(first, 2, 0, 1);
    for (int i = 1; i < GRAFT_CFG_OVERRIDES; i++) {
        m = overridden(at, 2, 0, 1);
        graft_model_release(at);
        at = m;
    }
    m = NULL;
    CHECK_INT(graft_model_override_cfg(at, &(graft_cfg_override){2, 0, 1}, &m, &e), GRAFT_E_LIMIT);
    CHECK(!m && strstr(e.text, "16 times"));
    graft_model_release(at);
}

/* Another network of the same kind. */
static graft_model *another(void)
{
    const char *path = temp_path("another.safetensors");
    made_file *f = part_of_file(TWO, UNET);
    for (size_t i = 0; i < f->n; i++)
        for (int64_t k = 0; k < shape_count(f->tensor[i].shape, f->tensor[i].rank); k++)
            ((float *)(uintptr_t)f->tensor[i].data)[k] *= k % 2 ? 0.8f : 1.1f;
    write_file(f, path, config_of(TWO));
    graft_model *m = load_model(engine, path);
    unlink(path);
    return m;
}

int main(void)
{
    graft_err e = GRAFT_ERR_INIT;
    engine = make_engine("cpu");
    first = load_model(engine, TWO);
    other = another();
    prompt = prompt_of(first, 20000, WORDS);
    more = prompt_of(first, 60000, MORE);
    CHECK_OK(graft_cond_zero_out(more, &none, &e), &e);
    RUN(led_away_from_the_other);
    RUN(without_guidance);
    RUN(the_same_twice);
    RUN(samplers_that_ask_for_it);
    RUN(what_does_not_go_together);
    RUN(no_memory);
    RUN(is_given_no_prompt);
    RUN(another_cfg_in_a_part);
    RUN(on_and_off);
    RUN(the_last_counts);
    RUN(shares_and_numbers);
    graft_cond_release(prompt);
    graft_cond_release(more);
    graft_cond_release(none);
    RELEASE_ALL(first, other);
    graft_engine_destroy(engine);
    return test_end();
}
