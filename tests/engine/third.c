/* Guidance by three prompts: its formulas on numbers small enough for the head, and that it goes
 * with all else that a run can have. */
#include "engine/denoise/opposites.h"
#include "engine/denoise/third.h"
#include "tests/engine/control.h"
#include "tests/engine/guided_call.h"

static graft_engine *engine;
static graft_model *model;
static graft_cond *prompt[3]; /* positive, negative, third */

/* ------------------------------------------------------------------ formulas */

static void guides(graft_third_way way, double cfg, double scale, const float p[2],
                   const float n[2], const float t[2], const float want[2])
{
    const graft_third third = {.way = way, .scale = scale};
    float v[3][2], out[2];
    memcpy(v[GRAFT_POSITIVE], p, sizeof v[0]);
    memcpy(v[GRAFT_NEGATIVE], n, sizeof v[0]);
    memcpy(v[GRAFT_THIRD], t, sizeof v[0]);
    graft_third_guide(&third, cfg, (float *const[]){v[0], v[1], v[2]}, 2, 2, out);
    for (int i = 0; i < 2; i++) CHECK_NEAR(out[i], want[i], 1e-6);
}

#define TWO(a, b) ((const float[2]){a, b})

static void by_hand(void)
{
    /* P - T = (2, 0); what is left of N - T is (0, 1), whatever it has of (2, 0). */
    guides(GRAFT_THIRD_PERPENDICULAR, 2, 0.5, TWO(3, 1), TWO(1, 2), TWO(1, 1), TWO(5, 0));
    guides(GRAFT_THIRD_PERPENDICULAR, 2, 0.5, TWO(3, 1), TWO(2, 2), TWO(1, 1), TWO(5, 0));
    guides(GRAFT_THIRD_PERPENDICULAR, 2, 0.5, TWO(3, 1), TWO(-7, 2), TWO(1, 1), TWO(5, 0));
    guides(GRAFT_THIRD_PERPENDICULAR, 2, 0, TWO(3, 1), TWO(2, 2), TWO(1, 1), TWO(5, 1));
    /* P - T = (1, 2), N - T = (3, 1) = (1, 2) + (2, -1). */
    guides(GRAFT_THIRD_PERPENDICULAR, 3, 1, TWO(1, 2), TWO(3, 1), TWO(0, 0), TWO(-3, 9));
    /* P is T: it has no direction. */
    guides(GRAFT_THIRD_PERPENDICULAR, 2, 0.5, TWO(1, 1), TWO(2, 2), TWO(1, 1), TWO(0, 0));
    guides(GRAFT_THIRD_DUAL, 2, 0.5, TWO(3, 1), TWO(1, 2), TWO(1, 1), TWO(5, 1.5f));
    guides(GRAFT_THIRD_NESTED, 2, 0.5, TWO(3, 1), TWO(1, 2), TWO(1, 1), TWO(3, 1.5f));
}

/* Directions are those of a picture, not of its batch: P - T is (1, 0) in one, (0, 1) in the other,
 * of which N - T has one and three times as much, and 1 across it. */
static void pictures_are_apart(void)
{
    const graft_third third = {.way = GRAFT_THIRD_PERPENDICULAR, .scale = 1};
    float p[4] = {1, 0, 0, 1}, n[4] = {1, 1, 1, 3}, t[4] = {0}, out[4];
    static const float want[4] = {1, -1, -1, 1};
    graft_third_guide(&third, 1, (float *const[]){p, n, t}, 4, 2, out);
    for (int i = 0; i < 4; i++) CHECK_NEAR(out[i], want[i], 1e-6);
}

/* ------------------------------------------------------------------ of a model */

static call call_of(const graft_model *m, graft_third_way way, double cfg, double scale)
{
    return (call){.model = m,
                  .positive = prompt[0],
                  .negative = prompt[1],
                  .third = {prompt[2], way, scale},
                  .cfg = cfg,
                  .calls = 1};
}

static void by_the_definition(void)
{
    float p[N], n[N], t[N], got[N], want[N];
    alone(model, prompt[0], p);
    alone(model, prompt[1], n);
    alone(model, prompt[2], t);
    for (int way = 0; way < 3; way++) {
        const call c = call_of(model, (graft_third_way)way, 4, 1.5);
        double dot = 0, square = 0;
        for (int i = 0; i < N; i++) {
            dot += (double)(n[i] - t[i]) * (p[i] - t[i]);
            square += (double)(p[i] - t[i]) * (p[i] - t[i]);
        }
        for (int i = 0; i < N; i++)
            want[i] = way == GRAFT_THIRD_PERPENDICULAR
                          ? t[i] + 4 * (p[i] - t[i]) - 6 * (n[i] - t[i]) +
                                (float)(6 * dot / square) * (p[i] - t[i])
                      : way == GRAFT_THIRD_DUAL ? 1.5f * t[i] - 0.5f * n[i] + 4 * (p[i] - t[i])
                                                : 1.5f * (4 * p[i] - 3 * t[i]) - 0.5f * n[i];
        denoise_by(&c, got);
        CHECK(difference(got, want, N) < 1e-4);
        CHECK(difference(got, p, N) > 1e-2);
    }
}

/* Where a prompt says nothing new, three guide as two do. */
static void as_two(void)
{
    float got[N], want[N];
    call c = call_of(model, GRAFT_THIRD_PERPENDICULAR, 4, 1.5);
    two(model, prompt[0], prompt[2], 4, want);
    c.negative = prompt[0]; /* all of it is along the positive one */
    denoise_by(&c, got);
    CHECK(difference(got, want, N) < 1e-4);
    c.negative = prompt[2];
    denoise_by(&c, got);
    CHECK(difference(got, want, N) < 1e-4);
    c = call_of(model, GRAFT_THIRD_DUAL, 4, 4);
    two(model, prompt[0], prompt[1], 4, want);
    denoise_by(&c, got);
    CHECK(difference(got, want, N) < 1e-4);
    c = call_of(model, GRAFT_THIRD_NESTED, 1, 4);
    denoise_by(&c, got);
    CHECK(difference(got, want, N) < 1e-4);
}

/* Prompts that pass, or are for parts of the picture, do on each side what they do alone; what one
 * of three has for a part the others get, too. */
static void in_parts(void)
{
    graft_cond *late = NULL, *part = in_cells(graft_cond_retain(prompt[2]), 0, 0, H, W / 2, 1);
    graft_cond *there = both(part, graft_cond_retain(prompt[2]));
    graft_err e = GRAFT_ERR_INIT;
    float p[N], n[N], got[N], want[N];
    CHECK_OK(graft_cond_timestep_range(prompt[2], 0.9, 1, &late, &e), &e);
    call c = call_of(model, GRAFT_THIRD_DUAL, 4, 1.5);
    alone(model, prompt[0], p);
    alone(model, prompt[1], n);
    c.third.prompt = late; /* not yet: nothing, which is 0 */
    denoise_by(&c, got);
    for (int i = 0; i < N; i++) want[i] = -0.5f * n[i] + 4 * p[i];
    CHECK(difference(got, want, N) < 1e-4);
    c.third.prompt = there;
    alone(model, there, want);
    denoise_by(&c, got);
    for (int i = 0; i < N; i++) want[i] = 1.5f * want[i] - 0.5f * n[i] + 4 * (p[i] - want[i]);
    CHECK(difference(got, want, N) < 1e-4);
    graft_opposites o = {NULL, NULL, NULL};
    const int64_t shape[4] = {1, 4, H, W};
    CHECK_OK(graft_opposites_make(prompt[0], prompt[1], shape, &o, &e), &e);
    CHECK_OK(graft_opposites_third(&o, there, shape, &e), &e);
    CHECK(o.positive->n == 2 && o.negative->n == 2 && o.third->n == 2);
    CHECK(memcmp(o.negative->entry[1]->data, prompt[1]->entry[0]->data, 64) == 0);
    graft_opposites_finish(&o);
    CHECK_OK(graft_opposites_make(there, prompt[1], shape, &o, &e), &e);
    CHECK_OK(graft_opposites_third(&o, prompt[2], shape, &e), &e);
    CHECK(o.positive->n == 2 && o.negative->n == 2 && o.third->n == 2);
    graft_opposites_finish(&o);
    graft_cond_release(late);
    graft_cond_release(there);
}

/* Outside the mask the latent stays, whatever three prompts say. */
static void under_a_mask(void)
{
    float mask[H * W], latent[N], noise[N], got[N];
    call c = call_of(model, GRAFT_THIRD_PERPENDICULAR, 4, 1.5);
    for (int i = 0; i < H * W; i++) mask[i] = (float)(i % W < 6);
    for (int i = 0; i < N; i++) {
        latent[i] = fixed_value(77 + (uint64_t)i);
        noise[i] = fixed_value(99999 + (uint64_t)i);
    }
    c.mask = mask;
    c.latent = latent;
    c.noise = noise;
    denoise_by(&c, got);
    for (int i = 0; i < N; i++)
        CHECK(mask[i % (H * W)] > 0 ? got[i] != latent[i] : got[i] == latent[i]);
}

/* Fast steps at the same place, and answers that EasyCache makes of the same x, give the same. */
static void with_less_work(void)
{
    const graft_easycache_options o = {.threshold = 3, .start = 0, .end = 1};
    graft_model *cached = with_deepcache(model, 3, 0, 0), *easy = NULL;
    graft_err e = GRAFT_ERR_INIT;
    float want[N], got[N];
    CHECK_OK(graft_model_easycache(model, &o, &easy, &e), &e);
    call c = call_of(model, GRAFT_THIRD_PERPENDICULAR, 4, 1.5);
    denoise_by(&c, want);
    c.model = cached;
    for (c.calls = 1; c.calls <= 2; c.calls++) {
        denoise_by(&c, got);
        CHECK(difference(got, want, N) < 1e-4);
    }
    c.model = easy;
    c.calls = 4;
    denoise_by(&c, got);
    CHECK(difference(got, want, N) < 1e-4);
    graft_model_release(easy);
    graft_model_release(cached);
}

/* What perturbed attention adds is the same as beside two prompts. */
static void with_perturbed_attention(void)
{
    graft_model *pag = NULL;
    graft_err e = GRAFT_ERR_INIT;
    float plain[N], with[N], want[N], got[N];
    CHECK_OK(graft_model_perturbed_attention(model, 2, &pag, &e), &e);
    two(model, prompt[0], prompt[1], 4, plain);
    two(pag, prompt[0], prompt[1], 4, with);
    call c = call_of(model, GRAFT_THIRD_PERPENDICULAR, 4, 1.5);
    denoise_by(&c, want);
    c.model = pag;
    denoise_by(&c, got);
    for (int i = 0; i < N; i++) want[i] += with[i] - plain[i];
    CHECK(difference(got, want, N) < 1e-4);
    CHECK(difference(with, plain, N) > 1e-2);
    graft_model_release(pag);
}

static graft_cond *steered(const graft_cond *c, graft_controlnet *net, graft_image *hint)
{
    const graft_control_options o = {
        .net = net, .hint = hint, .strength = 0.8, .start = 0, .end = 1, .everywhere = true};
    graft_cond *out = NULL;
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(graft_cond_control(c, NULL, &o, &out, NULL, &e), &e);
    return out;
}

/* A ControlNet that the positive prompt has for everyone steers the third one, too. */
static void with_a_controlnet(void)
{
    graft_controlnet *net = made_control(model, 0.5f);
    graft_image *hint = control_hint(1, 8 * H, 5);
    graft_cond *own[3];
    float v[3][N], got[N], want[N];
    for (int i = 0; i < 3; i++) {
        own[i] = steered(prompt[i], net, hint);
        alone(model, own[i], v[i]);
    }
    call c = call_of(model, GRAFT_THIRD_DUAL, 4, 1.5);
    c.positive = own[0];
    denoise_by(&c, got);
    for (int i = 0; i < N; i++) want[i] = 1.5f * v[2][i] - 0.5f * v[1][i] + 4 * (v[0][i] - v[2][i]);
    CHECK(difference(got, want, N) < 1e-4);
    c.positive = prompt[0];
    denoise_by(&c, want);
    CHECK(difference(got, want, N) > 1e-2);
    for (int i = 0; i < 3; i++) graft_cond_release(own[i]);
    graft_image_release(hint);
    graft_controlnet_release(net);
}

static void what_does_not_go(void)
{
    int64_t width = model->arch.context_dim + 1;
    graft_model *rescaled = NULL, *bad = NULL;
    graft_cond *wide = NULL;
    graft_err e = GRAFT_ERR_INIT;
    float out[N];
    CHECK_OK(graft_model_rescale_cfg(model, 0.7, &rescaled, &e), &e);
    call c = call_of(rescaled, GRAFT_THIRD_DUAL, 4, 1.5);
    CHECK_INT(try_call(&c, out, &e), GRAFT_E_UNSUPPORTED);
    CHECK(strstr(e.text, "RescaleCFG") != NULL);
    c = call_of(model, GRAFT_THIRD_DUAL, 4, 1.5);
    CHECK_OK(graft_cond_create(TOKENS, width, graft_calloc(TOKENS, (size_t)width * sizeof(float)),
                               0, NULL, NULL, &wide, &e),
             &e);
    c.third.prompt = wide;
    CHECK_INT(try_call(&c, out, &e), GRAFT_E_ARG);
    CHECK(strstr(e.text, "third") != NULL);
    static const double scales[] = {-1, 1001, NAN, INFINITY};
    for (int i = 0; i < 4; i++)
        CHECK_INT(graft_model_perp_neg(model, prompt[2], scales[i], &bad, &e), GRAFT_E_ARG);
    CHECK(!bad);
    graft_cond_release(wide);
    graft_model_release(rescaled);
}

/* ------------------------------------------------------------------ runs */

static graft_latent *sampled(const graft_sampling *s, const graft_task *task)
{
    graft_latent *from = NULL, *to = NULL;
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(graft_latent_empty(4, 80, 64, 2, &from, &e), &e);
    CHECK_OK(graft_sample_custom(s, from, task, &to, NULL, &e), &e);
    graft_latent_release(from);
    return to;
}

static bool same_values(const graft_latent *a, const graft_latent *b)
{
    int64_t s[4];
    const float *v = graft_latent_data(a, s), *w = graft_latent_data(b, s);
    return memcmp(v, w, (size_t)(s[0] * s[1] * s[2] * s[3]) * sizeof *v) == 0;
}

/* compile_only makes all that the run needs: a third prompt of another length is another batch. And
 * a model that has a third prompt of its own is sampled as by a guider with that. */
static void whole_runs(void)
{
    graft_cond *longer = place_prompt(model, 9, 2 * TOKENS);
    graft_sigmas *sigmas = NULL;
    graft_model *perp = NULL, *perp2 = NULL;
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(graft_sigmas_from_data((const float[]){14, 5, 1, 0}, 4, &sigmas, &e), &e);
    graft_sampling s = {.model = model,
                        .positive = prompt[0],
                        .negative = prompt[1],
                        .third = {longer, GRAFT_THIRD_PERPENDICULAR, 0.75},
                        .cfg = 1,
                        .sampler = "euler",
                        .sigmas = sigmas,
                        .add_noise = true,
                        .seed = 3};
    uint64_t first = graphs_built(engine);
    graft_latent_release(sampled(&s, &(const graft_task){.compile_only = true}));
    uint64_t before = graphs_built(engine);
    graft_latent *by_guider = sampled(&s, NULL);
    CHECK(before >= first + 2);
    CHECK_INT(graphs_built(engine), before);
    CHECK_OK(graft_model_perp_neg(model, prompt[2], 2, &perp, &e), &e);
    CHECK_OK(graft_model_perp_neg(perp, longer, 0.75, &perp2, &e), &e);
    graft_model_release(perp);
    s.model = perp2;
    s.third.prompt = NULL;
    graft_latent *by_model = sampled(&s, NULL);
    CHECK(same_values(by_guider, by_model));
    s.model = model;
    graft_latent *plain = sampled(&s, NULL);
    CHECK(!same_values(plain, by_model));
    s.model = perp2;
    s.negative = NULL; /* nothing to be perpendicular */
    graft_latent *single = sampled(&s, NULL);
    CHECK(same_values(single, plain)); /* a cfg of 1 is the positive prompt alone, too */
    graft_latent *const all[] = {by_guider, by_model, plain, single};
    for (int i = 0; i < 4; i++) graft_latent_release(all[i]);
    graft_model_release(perp2);
    graft_sigmas_release(sigmas);
    graft_cond_release(longer);
}

int main(void)
{
    static const char *const backends[] = {"ref", "cpu"};
    RUN(by_hand);
    RUN(pictures_are_apart);
    for (int i = 0; i < 2; i++) {
        engine = make_engine(backends[i]);
        if (!engine) return test_end();
        printf("backend %s\n", backends[i]);
        model = load_model(engine, SD1);
        for (int k = 0; k < 3; k++) prompt[k] = place_prompt(model, 1 + (uint64_t)k, TOKENS);
        RUN(by_the_definition);
        RUN(as_two);
        RUN(in_parts);
        RUN(under_a_mask);
        RUN(with_less_work);
        RUN(with_perturbed_attention);
        RUN(with_a_controlnet);
        RUN(what_does_not_go);
        RUN(whole_runs);
        for (int k = 0; k < 3; k++) graft_cond_release(prompt[k]);
        graft_model_release(model);
        graft_engine_destroy(engine);
    }
    return test_end();
}
