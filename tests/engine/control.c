/* ControlNets: what they add, to whom and when, that their strength is a run's, and that they go
 * with batches, DeepCache and quantizing. What their values are is for the golden tests. */
#include "engine/denoise/denoise.h"
#include "tests/engine/control_run.h"

/* ------------------------------------------------------------------ what they add */

/* A ControlNet that has learnt nothing, and one of strength 0, change no bit. */
static void nothing_is_nothing(void)
{
    float now[SMALL];
    graft_control_options o = options(1);
    o.net = silent;
    steer_and_run(&o, now);
    CHECK(memcmp(now, plain, sizeof now) == 0);
    o = options(0);
    pair p = steered(&o);
    CHECK(p.positive == positive && p.negative == negative);
    drop(p);
}

/* Residuals count times strength and add up: two of one half each are one. */
static void chains_add_up(void)
{
    float halves[SMALL], once[SMALL];
    graft_control_options o = options(0.5);
    steer_and_run(&(graft_control_options){.net = net, .hint = hint, .strength = 1, .end = 1},
                  once);
    CHECK(difference(once, plain, SMALL) > 0.01);
    CHECK(memcmp(once, with, sizeof once) == 0);
    pair a = steered(&o), b = steer(a, &o);
    run(b, halves);
    CHECK(difference(halves, with, SMALL) < 1e-4);
    run(a, halves);
    CHECK(difference(halves, with, SMALL) > 0.003);
    CHECK(difference(halves, plain, SMALL) > 0.003);
    drop(a);
    drop(b);
}

/* Opposite strengths of one picture are nothing; of another picture they are not. */
static void hints_count(void)
{
    float now[SMALL];
    graft_image *other = control_hint(1, 64, 9);
    graft_control_options a = options(1), b = options(-1);
    pair p = steered(&a), q = steer(p, &b);
    run(q, now);
    CHECK(difference(now, plain, SMALL) < 1e-4);
    drop(q);
    b.hint = other;
    q = steer(p, &b);
    run(q, now);
    CHECK(difference(now, plain, SMALL) > 1e-3);
    drop(q);
    drop(p);
    graft_image_release(other);
}

/* A picture of another size and one with transparency are brought to the latent's size and to
 * colours; one of brightness alone counts for all three. */
static void hints_of_other_shapes(void)
{
    int64_t shape[4];
    float now[SMALL], grey_as_three[SMALL];
    graft_err e = GRAFT_ERR_INIT;
    graft_image *wide = NULL, *large = NULL, *alpha = NULL, *grey = NULL, *three = NULL;
    const float *v = graft_image_data(hint, shape);
    static float four[64 * 64 * 4], one[64 * 64], same[64 * 64 * 3], twice[128 * 160 * 3];
    for (size_t i = 0; i < 64 * 64; i++) {
        memcpy(four + 4 * i, v + 3 * i, 3 * sizeof *v);
        four[4 * i + 3] = 0.25f;
        one[i] = same[3 * i] = same[3 * i + 1] = same[3 * i + 2] = v[3 * i];
    }
    /* Twice as large, and 16 columns more on either side, which are cut off. */
    for (int64_t y = 0; y < 128; y++)
        for (int64_t x = 0; x < 160; x++)
            for (int64_t c = 0; c < 3; c++)
                twice[(y * 160 + x) * 3 + c] =
                    x < 16 || x >= 144 ? 0 : v[(y / 2 * 64 + (x - 16) / 2) * 3 + c];
    CHECK_OK(graft_image_from_data(four, (int64_t[]){1, 64, 64, 4}, false, &alpha, &e), &e);
    CHECK_OK(graft_image_from_data(one, (int64_t[]){1, 64, 64, 1}, false, &grey, &e), &e);
    CHECK_OK(graft_image_from_data(same, (int64_t[]){1, 64, 64, 3}, false, &three, &e), &e);
    CHECK_OK(graft_image_from_data(twice, (int64_t[]){1, 128, 160, 3}, false, &wide, &e), &e);
    CHECK_OK(graft_image_scale(hint, "nearest-exact", 192, 192, false, &large, &e), &e);
    graft_image *const like_hint[] = {alpha, wide, large};
    graft_control_options o = options(1);
    for (int i = 0; i < 3; i++) {
        o.hint = like_hint[i];
        steer_and_run(&o, now);
        CHECK(memcmp(now, with, sizeof now) == 0);
    }
    o.hint = grey;
    steer_and_run(&o, now);
    o.hint = three;
    steer_and_run(&o, grey_as_three);
    CHECK(memcmp(now, grey_as_three, sizeof now) == 0);
    graft_image *const all[] = {wide, large, alpha, grey, three};
    for (int i = 0; i < 5; i++) graft_image_release(all[i]);
}

/* ------------------------------------------------------------------ to whom and when */

/* Only the steps in the range are steered; a range that no step is in is nothing. */
static void ranges(void)
{
    float first[SMALL], second[SMALL], now[SMALL];
    graft_control_options o = options(1);
    o.end = 0.5;
    steer_and_run(&o, first);
    o.start = 0.5, o.end = 1;
    steer_and_run(&o, second);
    CHECK(difference(first, plain, SMALL) > 1e-3);
    CHECK(difference(second, plain, SMALL) > 1e-4);
    CHECK(difference(first, second, SMALL) > 1e-4);
    CHECK(difference(first, with, SMALL) > 1e-4);
    /* Both halves, one behind the other, are all of it. */
    graft_control_options early = options(1), late = options(1);
    early.end = 0.5, late.start = 0.5001;
    pair a = steered(&early), b = steer(a, &late);
    run(b, now);
    CHECK(difference(now, with, SMALL) < 1e-5);
    drop(a);
    drop(b);
    o.start = 0.7, o.end = 0.2;
    steer_and_run(&o, now);
    CHECK(memcmp(now, plain, sizeof now) == 0);
}

/* Each prompt has its own: steering one of them is another picture, and a prompt that is steered
 * apart from the other one by the same is the same but for rounding. */
static void prompts_apart(void)
{
    float now[SMALL], one[SMALL];
    graft_err e = GRAFT_ERR_INIT;
    graft_control_options o = options(1);
    pair both = steered(&o), again = steered(&o);
    pair mixed = {both.positive, again.negative};
    run(mixed, now);
    CHECK(difference(now, with, SMALL) < 1e-5);
    pair half = {both.positive, negative}, other = {positive, both.negative};
    run(half, one);
    CHECK(difference(one, with, SMALL) > 1e-4);
    run(other, now);
    CHECK(difference(now, one, SMALL) > 1e-4);
    /* The old node: its negative prompt takes part, unless that has one of its own. */
    graft_cond *old = NULL;
    o.everywhere = true;
    CHECK_OK(graft_cond_control(positive, NULL, &o, &old, NULL, &e), &e);
    run((pair){old, negative}, now);
    CHECK(memcmp(now, with, sizeof now) == 0);
    graft_control_options weak = options(0.25);
    pair own = steered(&weak);
    run((pair){old, own.negative}, now);
    CHECK(difference(now, with, SMALL) > 1e-4);
    drop(own);
    graft_cond_release(old);
    drop(both);
    drop(again);
}

/* What other nodes make of a steered prompt is steered, too. */
static void survives_other_nodes(void)
{
    float now[SMALL];
    graft_err e = GRAFT_ERR_INIT;
    graft_control_options o = options(1);
    pair p = steered(&o), q = {NULL, NULL};
    CHECK_OK(graft_cond_timestep_range(p.positive, 0, 1, &q.positive, &e), &e);
    CHECK_OK(graft_cond_average(p.negative, positive, 1, &q.negative, &e), &e);
    run(q, now);
    CHECK(memcmp(now, with, sizeof now) == 0);
    drop(q);
    drop(p);
}

/* ------------------------------------------------------------------ the run */

/* Neither strength nor range nor picture compile anything. */
static void nothing_is_compiled_again(void)
{
    graft_compiled_stats before, after;
    float now[SMALL];
    graft_image *other = control_hint(1, 64, 77);
    graft_compiled_stats_get(engine->compiled, &before);
    for (int i = 1; i < 6; i++) {
        graft_control_options o = options(0.3 * i);
        o.start = 0.1 * i;
        if (i % 2) o.hint = other;
        steer_and_run(&o, now);
    }
    graft_compiled_stats_get(engine->compiled, &after);
    CHECK_INT(after.built, before.built);
    graft_image_release(other);
}

/* compile_only compiles all that the run then needs. */
static void ahead_of_time_with(bool overlap, uint64_t want)
{
    graft_compiled_stats before, after;
    graft_task task = {.compile_only = true};
    graft_engine *fresh = make_engine("cpu");
    graft_model *m = load_model(fresh, SD1);
    graft_controlnet *n = made_control(m, 1);
    graft_control_options o = options(1);
    float now[SMALL];
    o.net = n, o.end = overlap ? 0.6 : 0.3;
    graft_control_options late = o;
    if (!overlap) late.start = 0.6, late.end = 1;
    pair p = steered(&o), q = steer(p, &late);
    sampling s = usual;
    s.task = &task;
    sample(m, q, &s, now);
    graft_compiled_stats_get(fresh->compiled, &before);
    s.task = NULL;
    sample(m, q, &s, now);
    graft_compiled_stats_get(fresh->compiled, &after);
    CHECK_INT(before.built, want);
    CHECK_INT(after.built, before.built);
    drop(p);
    drop(q);
    graft_controlnet_release(n);
    graft_model_release(m);
    graft_engine_destroy(fresh);
}

static void ahead_of_time(void)
{
    ahead_of_time_with(true, 5);  /* hint, net, net on top of another, UNet with and without */
    ahead_of_time_with(false, 4); /* never on top of another */
}

/* Pictures of a hint repeat over a batch: the third picture of two hints has the first. */
static void batches(void)
{
    static float all[3 * SMALL], first[3 * SMALL];
    graft_image *two = control_hint(2, 64, 1);
    graft_control_options o = options(1);
    sampling s = usual;
    s.batch = 3;
    pair p = steered(&o);
    sample(model, p, &s, first); /* everywhere the one picture, which is the first of `two` */
    drop(p);
    o.hint = two;
    p = steered(&o);
    sample(model, p, &s, all);
    CHECK(difference(all, first, SMALL) < 1e-5);
    CHECK(difference(all + SMALL, first + SMALL, SMALL) > 1e-4);
    CHECK(difference(all + 2 * SMALL, first + 2 * SMALL, SMALL) < 1e-5);
    drop(p);
    graft_image_release(two);
}

static graft_model *with_cache(int64_t interval, bool outermost)
{
    const graft_deepcache_options o = {interval, 0, 0, 0, 1000, "uniform", 0, outermost};
    graft_model *out = NULL;
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(graft_model_deepcache(model, &o, &out, &e), &e);
    return out;
}

/* DeepCache's fast steps take residuals of the last whole step, and run no ControlNet. */
static void deepcache(void)
{
    float cached[SMALL], now[SMALL];
    graft_control_options o = options(1), nothing = options(1);
    nothing.net = silent;
    sampling s = usual;
    s.steps = 6;
    pair p = steered(&o), q = steered(&nothing);
    for (int outermost = 0; outermost < 2; outermost++) {
        graft_model *every = with_cache(1, outermost), *third = with_cache(3, outermost);
        sample(every, p, &s, now);
        sample(third, p, &s, cached);
        CHECK(difference(cached, now, SMALL) < 0.5);
        CHECK(memcmp(cached, now, sizeof now) != 0);
        float unsteered[SMALL], silently[SMALL];
        sample(third, (pair){positive, negative}, &s, unsteered);
        CHECK(difference(cached, unsteered, SMALL) > 1e-3);
        sample(third, q, &s, silently);
        CHECK(memcmp(silently, unsteered, sizeof silently) == 0);
        graft_model_release(every);
        graft_model_release(third);
    }
    drop(p);
    drop(q);
}

/* However rarely DeepCache computes everything: what begins is seen, and what ends is over. */
static void deepcache_ranges(void)
{
    float now[SMALL], other[SMALL];
    graft_model *once = with_cache(1000, true);
    graft_control_options early = options(1), late = options(1), always = options(1);
    early.end = 0.4, late.start = 0.6;
    sampling s = usual;
    s.steps = 6;
    pair p = steered(&late), q = steered(&early), r = steered(&always);
    sample(once, (pair){positive, negative}, &s, other);
    sample(once, p, &s, now);
    CHECK(difference(now, other, SMALL) > 1e-4);
    sample(once, r, &s, other);
    sample(once, q, &s, now);
    CHECK(difference(now, other, SMALL) > 1e-4);
    graft_model_release(once);
    drop(p);
    drop(q);
    drop(r);
}

/* Samplers that look at the prediction without the prompt, and guidance of 1. */
static void other_samplers(void)
{
    static const char *const names[] = {"euler_cfg_pp", "dpmpp_2m_sde", "heun"};
    float now[SMALL], bare[SMALL];
    graft_control_options o = options(1);
    pair p = steered(&o), q = {positive, negative};
    for (int i = 0; i < 4; i++) {
        sampling s = {1, 4, i < 3 ? 3.0 : 1.0, i < 3 ? names[i] : "euler", NULL};
        sample(model, p, &s, now);
        sample(model, q, &s, bare);
        CHECK(difference(now, bare, SMALL) > 1e-3);
    }
    drop(p);
}

/* Quantizing calibrates on steered prompts, and what it gives is steered. */
static void quantized(void)
{
    float now[SMALL], bare[SMALL];
    graft_err e = GRAFT_ERR_INIT;
    graft_control_options o = options(1);
    pair p = steered(&o), q = {positive, negative};
    graft_latent *latent = NULL;
    graft_model *m = NULL;
    CHECK_OK(graft_latent_empty(4, 64, 64, 1, &latent, &e), &e);
    const graft_quantize_options quantize = quantizing(p, latent);
    CHECK_OK(graft_model_quantize(model, &quantize, NULL, &m, NULL, &e), &e);
    if (!m) return;
    sample(m, p, &usual, now);
    sample(m, q, &usual, bare);
    CHECK(memcmp(now, with, sizeof now) != 0);
    CHECK(difference(now, with, SMALL) < 0.5);
    CHECK(difference(now, bare, SMALL) > 1e-3);
    graft_model_release(m);
    graft_latent_release(latent);
    drop(p);
}

/* SDXL's y goes into the ControlNet as well, and nothing is shared between rows. */
static void sdxl(void)
{
    float bare[SMALL], now[SMALL];
    graft_model *xl = load_model(engine, SDXL);
    graft_controlnet *n = made_control(xl, 1), *quiet = made_control(xl, 0);
    pair p = {prompt(xl, 1), prompt(xl, 2)};
    graft_control_options o = options(1);
    sample(xl, p, &usual, bare);
    o.net = n;
    pair q = steer(p, &o);
    sample(xl, q, &usual, now);
    CHECK(difference(now, bare, SMALL) > 1e-3);
    drop(q);
    o.net = quiet;
    q = steer(p, &o);
    sample(xl, q, &usual, now);
    CHECK(memcmp(now, bare, sizeof now) == 0);
    drop(q);
    drop(p);
    graft_controlnet_release(n);
    graft_controlnet_release(quiet);
    graft_model_release(xl);
}

int main(void)
{
    control_begin();
    RUN(nothing_is_nothing);
    RUN(chains_add_up);
    RUN(hints_count);
    RUN(hints_of_other_shapes);
    RUN(ranges);
    RUN(prompts_apart);
    RUN(survives_other_nodes);
    RUN(nothing_is_compiled_again);
    RUN(ahead_of_time);
    RUN(batches);
    RUN(deepcache);
    RUN(deepcache_ranges);
    RUN(other_samplers);
    RUN(quantized);
    RUN(sdxl);
    control_end();
    return test_end();
}
