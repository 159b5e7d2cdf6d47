/* Hooks in a sampling: prompts with hooks are evaluated with the weights that LoraLoader makes,
 * step by step and prompt by prompt, bit for bit, and nothing is compiled for them. */
#include "tests/engine/hooks.h"

static graft_model *model;
static char lora_a[256], lora_b[256];
static const char *const parts[2][2] = {{"attn1", "ff.net.2"}, {"attn1", "attn2"}};

static graft_cond *prompt(uint64_t seed)
{
    return place_prompt(model, seed, TOKENS);
}

static run_of run_with(const graft_model *m, const graft_cond *positive, const graft_cond *negative)
{
    return (run_of){.model = m, .positive = positive, .negative = negative};
}

/* ------------------------------------------------------------------ one set */

static void same_as_a_loader(void)
{
    static const char *const samplers[] = {"euler", "dpmpp_2m_sde", "euler_cfg_pp"};
    static const double strengths[] = {1, 0.6, -0.75};
    graft_cond *p = prompt(1), *n = prompt(2);
    float want[N], got[N], plain[N];
    run_of r = run_with(model, p, n);
    run(&r, plain);
    for (int i = 0; i < 3; i++) {
        graft_model *l = loaded_with(model, lora_a, strengths[i]);
        graft_hooks *h = and_lora(NULL, lora_a, strengths[i]);
        graft_cond *hp = hooked(graft_cond_retain(p), h), *hn = hooked(graft_cond_retain(n), h);
        r = run_with(l, p, n);
        r.sampler = samplers[i];
        run(&r, want);
        const uint64_t built = graphs_built(engine);
        r.model = model;
        r.positive = hp;
        r.negative = hn;
        run(&r, got);
        CHECK(same(want, got));
        CHECK(difference(got, plain, N) > 1e-3);
        CHECK_INT(graphs_built(engine), built);
        const uint64_t made = packs_of(engine).made;
        run(&r, got); /* the set stayed */
        CHECK(same(want, got));
        CHECK_INT(packs_of(engine).made, made);
        graft_cond_release(hp);
        graft_cond_release(hn);
        graft_hooks_release(h);
        graft_model_release(l);
    }
    graft_cond_release(p);
    graft_cond_release(n);
}

/* One after the other, also on a model with a LoRA; a hook counts once however often it comes. */
static void several(void)
{
    graft_cond *p = prompt(1), *n = prompt(2);
    float want[N], got[N];
    graft_err e = GRAFT_ERR_INIT;
    graft_model *a = loaded_with(model, lora_a, 0.5), *ab = loaded_with(a, lora_b, 0.75),
                *aba = loaded_with(ab, lora_a, -0.25);
    graft_hooks *h = and_lora(and_lora(NULL, lora_b, 0.75), lora_a, -0.25), *twice = NULL;
    CHECK_OK(graft_hooks_combine(h, h, &twice, &e), &e);
    CHECK_INT(graft_hooks_count(twice), 2);
    graft_cond *hp = hooked(graft_cond_retain(p), twice), *hn = hooked(graft_cond_retain(n), h);
    hp = hooked(hp, h);
    CHECK_INT(graft_hooks_count(hp->entry[0]->hooks), 2);
    run_of r = run_with(aba, p, n);
    run(&r, want);
    r = run_with(a, hp, hn);
    run(&r, got);
    CHECK(same(want, got));
    /* Another node's hook of the same file is another hook. */
    graft_hooks *more = and_lora(and_lora(NULL, lora_a, 0.5), lora_b, 0.75);
    more = and_lora(more, lora_a, -0.25);
    CHECK_INT(graft_hooks_count(more), 3);
    graft_cond *mp = hooked(graft_cond_retain(p), more), *mn = hooked(graft_cond_retain(n), more);
    r = run_with(model, mp, mn);
    run(&r, got);
    CHECK(same(want, got));
    graft_cond *const conds[] = {p, n, hp, hn, mp, mn};
    for (size_t i = 0; i < 6; i++) graft_cond_release(conds[i]);
    graft_hooks_release(h);
    graft_hooks_release(twice);
    graft_hooks_release(more);
    graft_model_release(a);
    graft_model_release(ab);
    graft_model_release(aba);
}

/* Strengths of 0 are no hooks: prompts share the batch of those without. */
static void nothing_is_nothing(void)
{
    graft_cond *p = prompt(1), *n = prompt(2);
    float want[N], got[N];
    graft_hooks *h = keyed(and_lora(NULL, lora_a, 1), &(graft_keyframe){0, 0}, 1), *none;
    graft_cond *hp = hooked(graft_cond_retain(p), h);
    none = and_lora(NULL, lora_a, 0);
    CHECK_INT(graft_hooks_count(none), 0);
    hp = hooked(hp, none);
    run_of r = run_with(model, p, n);
    run(&r, want);
    const uint64_t built = graphs_built(engine);
    r.positive = hp;
    run(&r, got);
    CHECK(same(want, got));
    CHECK_INT(graphs_built(engine), built);
    graft_cond_release(p);
    graft_cond_release(n);
    graft_cond_release(hp);
    graft_hooks_release(h);
    graft_hooks_release(none);
}

/* ------------------------------------------------------------------ keyframes */

/* A switch at a step is the same as two samplings, one after the other. */
static void keyframes_switch(void)
{
    const double share = share_before(model, 2), later = share_before(model, 4);
    graft_cond *p = prompt(1), *n = prompt(2);
    graft_model *strong = loaded_with(model, lora_a, 0.8), *weak = loaded_with(model, lora_a, 0.2);
    float want[N], got[N], half[N];
    graft_err e = GRAFT_ERR_INIT;
    /* The first counts from the beginning on, whatever its start is. */
    const graft_keyframe frames[] = {{later, 0}, {share / 2, 2}, {share, 0.5}};
    graft_hooks *h = keyed(and_lora(NULL, lora_a, 0.4), frames, 3);
    graft_cond *hp = hooked(graft_cond_retain(p), h), *hn = hooked(graft_cond_retain(n), h);
    run_of first = run_with(strong, p, n), second = run_with(weak, p, n),
           third = run_with(model, p, n);
    first.to = second.from = 2;
    second.to = third.from = 4;
    CHECK_OK(try_run(&first, half, &e), &e);
    CHECK_OK(try_part(&second, half, half, &e), &e);
    CHECK_OK(try_part(&third, half, want, &e), &e);
    const uint64_t built = graphs_built(engine);
    run_of r = run_with(model, hp, hn);
    run(&r, got);
    CHECK(same(want, got));
    CHECK_INT(graphs_built(engine), built);
    graft_cond_release(p);
    graft_cond_release(n);
    graft_cond_release(hp);
    graft_cond_release(hn);
    graft_hooks_release(h);
    graft_model_release(strong);
    graft_model_release(weak);
}

static void keyframes_in_order(void)
{
    const graft_keyframe list[] = {{0.5, 3}, {0.25, 1}, {0.5, 4}};
    graft_keyframes *k = NULL, *more = NULL;
    graft_keyframe made[5];
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(graft_keyframes_add(NULL, list, 3, &k, &e), &e);
    CHECK_OK(graft_keyframes_add(k, &(graft_keyframe){0, 2}, 1, &more, &e), &e);
    CHECK_INT(graft_keyframes_count(more), 4);
    static const double want[][2] = {{0, 2}, {0.25, 1}, {0.5, 3}, {0.5, 4}};
    for (int i = 0; i < 4; i++)
        CHECK(more->frame[i].start == want[i][0] && more->frame[i].strength == want[i][1]);
    graft_keyframes_release(k);
    graft_keyframes_release(more);
    static const struct {
        const char *name;
        double want[5];
    } curves[] = {{"linear", {1, 1.5, 2, 2.5, 3}},
                  {"ease_in", {1, 1.125, 1.5, 2.125, 3}},
                  {"ease_out", {1, 1.875, 2.5, 2.875, 3}},
                  {"ease_in_out", {1, 1.3125, 2, 2.6875, 3}}};
    for (int i = 0; i < 4; i++) {
        const graft_keyframe_curve c = {{0.2, 1}, {0.6, 3}, 5, curves[i].name};
        CHECK_OK(graft_keyframes_curve(&c, made, &e), &e);
        for (int f = 0; f < 5; f++) {
            CHECK_NEAR(made[f].start, 0.2 + 0.1 * f, 1e-12);
            CHECK_NEAR(made[f].strength, curves[i].want[f], 1e-12);
        }
    }
    const graft_keyframe_curve one = {{0.2, 1}, {0.6, 3}, 1, "ease_in"},
                               bad = {{0, 1}, {1, 1}, 5, "bounce"};
    CHECK_OK(graft_keyframes_curve(&one, made, &e), &e);
    CHECK(made[0].start == 0.2 && made[0].strength == 1);
    CHECK_INT(graft_keyframes_curve(&bad, made, &e), GRAFT_E_ARG);
    CHECK_INT(graft_keyframes_add(NULL, &(graft_keyframe){1.5, 1}, 1, &k, &e), GRAFT_E_ARG);
    CHECK_INT(graft_keyframes_add(NULL, &(graft_keyframe){0, NAN}, 1, &k, &e), GRAFT_E_ARG);
}

/* More sets than stay: the longest unused leave, with what was packed for them. */
static void many_keyframes(void)
{
    enum { MANY = 3 * GRAFT_HOOK_SETS };
    graft_keyframe frame[MANY];
    graft_cond *p = prompt(1), *n = prompt(2);
    float first[N], again[N];
    graft_task task = {.ctx = NULL};
    for (int i = 0; i < MANY; i++) frame[i] = (graft_keyframe){i / (double)MANY, 0.1 + 0.01 * i};
    graft_hooks *h = keyed(and_lora(NULL, lora_a, 1), frame, MANY);
    graft_cond *hp = hooked(graft_cond_retain(p), h);
    /* dpm_2 looks between the steps, too. */
    run_of r = run_with(model, hp, n);
    r.sampler = "dpm_2";
    r.task = &task;
    graft_engine_release_unused(engine);
    run(&r, first);
    CHECK(h->n_sets <= GRAFT_HOOK_SETS && hp->entry[0]->hooks->n_sets == GRAFT_HOOK_SETS);
    const uint64_t bytes = packs_of(engine).bytes;
    for (int i = 0; i < 3; i++) {
        run(&r, again);
        CHECK(same(first, again));
        CHECK(packs_of(engine).bytes <= bytes);
    }
    graft_cond_release(p);
    graft_cond_release(n);
    graft_cond_release(hp);
    graft_hooks_release(h);
    CHECK(packs_of(engine).bytes < bytes);
}

/* ------------------------------------------------------------------ by prompt */

/* What the model predicts for one prompt alone. */
static void alone(const graft_model *m, const graft_cond *c, float *out)
{
    const one_call call = {m, c, c, 1.0, {1, 4, H, W}, NULL, NULL, 0};
    denoise(&call, out);
}

/* Positive prompts with hooks, negative ones without. */
static void one_side(void)
{
    graft_cond *p = prompt(1), *n = prompt(2);
    graft_hooks *h = and_lora(NULL, lora_a, 0.7);
    graft_model *l = loaded_with(model, lora_a, 0.7);
    graft_cond *hp = hooked(graft_cond_retain(p), h);
    float with[N], without[N], want[N], got[N];
    alone(l, p, with);
    alone(model, n, without);
    for (int i = 0; i < N; i++) want[i] = graft_guidance_combined(without[i], with[i], 3);
    const one_call call = {model, hp, n, 3.0, {1, 4, H, W}, NULL, NULL, 0};
    denoise(&call, got);
    CHECK(same(want, got));
    graft_cond_release(p);
    graft_cond_release(n);
    graft_cond_release(hp);
    graft_hooks_release(h);
    graft_model_release(l);
}

static graft_status look_on(void *ctx, const graft_guided_call *call, graft_err *e)
{
    size_t *seen = ctx;
    (void)e;
    seen[0]++;
    seen[1] = call->entries;
    return GRAFT_OK;
}

/* Who looks on, as calibration does, sees the model without hooks. */
static void onlookers(void)
{
    graft_cond *p = prompt(1), *n = prompt(2);
    graft_hooks *h = and_lora(NULL, lora_a, 0.7);
    graft_cond *hp = hooked(graft_cond_retain(p), h);
    float want[N], got[N];
    size_t seen[2] = {0, 0};
    const graft_guided_tap tap = {seen, look_on};
    one_call call = {model, p, n, 3.0, {1, 4, H, W}, NULL, NULL, 0};
    denoise(&call, want);
    call.positive = hp;
    call.tap = &tap;
    denoise(&call, got);
    CHECK(same(want, got));
    CHECK(seen[0] == 1 && seen[1] == 2);
    graft_cond_release(p);
    graft_cond_release(n);
    graft_cond_release(hp);
    graft_hooks_release(h);
}

/* Two halves of a picture with a LoRA each: each place has what its prompt's model says there. */
static void two_regions(void)
{
    graft_cond *p = prompt(1), *q = prompt(3);
    graft_hooks *ha = and_lora(NULL, lora_a, 1), *hb = and_lora(NULL, lora_b, 0.5);
    graft_model *a = loaded_with(model, lora_a, 1), *b = loaded_with(model, lora_b, 0.5);
    graft_image *left = columns(H, W, 0, 5), *right = columns(H, W, 5, W);
    float one[N], other[N], got[N];
    alone(a, p, one);
    alone(b, q, other);
    graft_cond *c = both(masked(hooked(graft_cond_retain(p), ha), left, 1, false),
                         masked(hooked(graft_cond_retain(q), hb), right, 1, false));
    alone(model, c, got);
    for (int i = 0; i < N; i++) CHECK(got[i] == (i % W < 5 ? one[i] : other[i]));
    graft_cond_release(c);
    graft_cond_release(p);
    graft_cond_release(q);
    graft_hooks_release(ha);
    graft_hooks_release(hb);
    graft_model_release(a);
    graft_model_release(b);
    graft_image_release(left);
    graft_image_release(right);
}

/* Prompts in an area bring their hooks to the other side's words there. */
static void areas(void)
{
    graft_hooks *h = and_lora(NULL, lora_a, 1);
    graft_cond *p = prompt(1), *n = prompt(2);
    graft_cond *area = in_cells(hooked(graft_cond_retain(p), h), 0, 0, 8, 4, 1);
    graft_cond *opposite = in_cells(hooked(graft_cond_retain(n), h), 0, 0, 8, 4, 1);
    float got[N], want[N];
    graft_cond *c = both(graft_cond_retain(p), area), *m = both(graft_cond_retain(n), opposite);
    run_of r = run_with(model, c, n);
    run(&r, got);
    r.negative = m;
    run(&r, want);
    CHECK(same(want, got));
    graft_cond_release(c);
    graft_cond_release(m);
    graft_cond_release(p);
    graft_cond_release(n);
    graft_hooks_release(h);
}

/* ------------------------------------------------------------------ what others leave */

static graft_cond *with_default(graft_cond *c, const graft_cond *rest, const graft_hooks *h)
{
    graft_cond *out = NULL;
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(graft_cond_default(c, rest, h, &out, &e), &e);
    graft_cond_release(c);
    return out;
}

static void the_rest(void)
{
    graft_cond *p = prompt(1), *q = prompt(3);
    graft_hooks *h = and_lora(NULL, lora_b, 0.5);
    graft_model *l = loaded_with(model, lora_b, 0.5);
    float v[H * W], one[N], other[N], got[N], want[N];
    for (int i = 0; i < H * W; i++) v[i] = i % W < 3 ? 1.0f : i % W < 5 ? 0.25f : 0.0f;
    graft_image *mask = mask_of(v, 1, H, W), *all = columns(H, W, 0, W);
    alone(model, p, one);
    alone(l, q, other);
    /* A mask of the default one's own is not looked at. */
    graft_cond *rest = masked(graft_cond_retain(q), mask, 3, true);
    graft_cond *c = with_default(masked(graft_cond_retain(p), mask, 1, false), rest, h);
    alone(model, c, got);
    for (int i = 0; i < N; i++) {
        const float w = v[i % (H * W)];
        want[i] = w * one[i] + (1 - w) * other[i];
    }
    CHECK(difference(got, want, N) < 1e-5);
    for (int i = 0; i < N; i++) CHECK(i % W >= 3 || got[i] == one[i]);
    graft_cond_release(c);
    /* Where nothing is left it is not computed: with broken words nobody sees them. */
    graft_cond *broken = prompt(4);
    for (int64_t i = 0; i < broken->entry[0]->tokens; i++) broken->entry[0]->data[i] = NAN;
    c = with_default(masked(graft_cond_retain(p), all, 1, false), broken, NULL);
    alone(model, c, got);
    CHECK(same(got, one));
    graft_cond_release(c);
    /* Of several each has the same. */
    c = with_default(graft_cond_retain(p), q, h);
    c = with_default(c, q, h);
    alone(model, c, got);
    CHECK(same(got, one));
    graft_cond *const conds[] = {p, q, rest, broken, c};
    for (size_t i = 0; i < 5; i++) graft_cond_release(conds[i]);
    graft_image_release(mask);
    graft_image_release(all);
    graft_hooks_release(h);
    graft_model_release(l);
}

/* Prompts that are over leave their place. */
static void the_rest_of_the_steps(void)
{
    const double share = share_before(model, 3);
    graft_cond *p = prompt(1), *q = prompt(3), *n = prompt(2), *early = NULL;
    float got[N], want[N];
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(graft_cond_timestep_range(p, 0, share, &early, &e), &e);
    graft_cond *c = with_default(early, q, NULL);
    run_of first = run_with(model, p, n), second = run_with(model, q, n), r = run_with(model, c, n);
    run_two(&first, &second, 3, want);
    run(&r, got);
    CHECK(difference(got, want, N) < 1e-5);
    graft_cond_release(p);
    graft_cond_release(q);
    graft_cond_release(n);
    graft_cond_release(c);
}

static void try_all(const char *backend)
{
    engine = make_engine(backend);
    model = load_model(engine, SD1);
    model->scale_factor = 1; /* so that runs in parts hand latents on as they are */
    write_lora(lora_a, "a.safetensors", parts[0], 2, 0.2f);
    write_lora(lora_b, "b.safetensors", parts[1], 2, 0.2f);
    printf("%s\n", backend);
    RUN(same_as_a_loader);
    RUN(several);
    RUN(nothing_is_nothing);
    RUN(keyframes_switch);
    RUN(many_keyframes);
    RUN(one_side);
    RUN(onlookers);
    RUN(two_regions);
    RUN(areas);
    RUN(the_rest);
    RUN(the_rest_of_the_steps);
    graft_model_release(model);
    unlink(lora_a);
    unlink(lora_b);
    graft_engine_destroy(engine);
}

int main(void)
{
    RUN(keyframes_in_order);
    try_all("cpu");
    try_all("ref");
    return test_end();
}
