/* Union ControlNets: what a type changes, that it is a run's, that it goes with batches, areas,
 * DeepCache and quantizing, and files that are none. What their values are is for the golden tests.
 */
#include "tests/engine/control_run.h"

enum { TYPES = 8 };
static const char *const types[] = {GRAFT_CONTROLNET_TYPES};
static graft_controlnet *many, *few; /* with 8 and 6 types */

static made_file *make_union(const graft_model *m, float scale, int n)
{
    random_state = 1; /* the same ControlNet whatever is added */
    made_file *f = make_control(m, scale);
    add_union(f, m, n);
    return f;
}

static graft_controlnet *told(const graft_controlnet *n, const char *type)
{
    graft_controlnet *out = NULL;
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(graft_controlnet_with_type(n, type, NULL, &out, &e), &e);
    return out;
}

/* What the usual run gives with `n` told a type. */
static void run_told(const graft_controlnet *n, const char *type, float *out)
{
    graft_control_options o = options(1);
    graft_controlnet *k = told(n, type);
    o.net = k;
    steer_and_run(&o, out);
    graft_controlnet_release(k);
}

/* ------------------------------------------------------------------ what a type changes */

/* Each type is another picture, and "auto" is what the file gives before a type is set. */
static void each_type_counts(void)
{
    float now[1 + TYPES][SMALL], bare[SMALL];
    graft_control_options o = options(1);
    o.net = many;
    steer_and_run(&o, bare);
    for (int i = 0; i <= TYPES; i++) {
        run_told(many, types[i], now[i]);
        CHECK(difference(now[i], plain, SMALL) > 1e-3);
        for (int k = 0; k < i; k++) CHECK(difference(now[i], now[k], SMALL) > 1e-3);
    }
    CHECK(memcmp(now[0], bare, sizeof bare) == 0);
}

/* The same ControlNet without what makes it a union ControlNet. */
static void untold_is_an_ordinary_one(void)
{
    float now[SMALL], ordinary[SMALL];
    graft_control_options o = options(1);
    random_state = 1;
    graft_controlnet *n = made_control(model, 1);
    o.net = n;
    steer_and_run(&o, ordinary);
    o.net = many;
    steer_and_run(&o, now);
    CHECK(difference(now, ordinary, SMALL) < 1e-6);
    graft_controlnet_release(n);
}

/* One that has learnt nothing changes no bit, whatever it is told. */
static void nothing_is_nothing_of_any_type(void)
{
    float now[SMALL];
    graft_controlnet *n = load_made(model, make_union(model, 0, 6));
    run_told(n, "segment", now);
    CHECK(memcmp(now, plain, sizeof now) == 0);
    graft_controlnet_release(n);
}

/* Types of one ControlNet add up: opposite strengths of one type are nothing, of two they are not.
 */
static void types_add_up(void)
{
    float now[SMALL];
    graft_controlnet *depth = told(many, "depth"), *again = told(many, "depth");
    graft_controlnet *tile = told(many, "tile");
    graft_control_options a = options(1), b = options(-1);
    a.net = depth, b.net = again;
    pair p = steered(&a), q = steer(p, &b);
    run(q, now);
    CHECK(difference(now, plain, SMALL) < 1e-4);
    drop(q);
    b.net = tile;
    q = steer(p, &b);
    run(q, now);
    CHECK(difference(now, plain, SMALL) > 1e-3);
    drop(q);
    drop(p);
    graft_controlnet_release(depth);
    graft_controlnet_release(again);
    graft_controlnet_release(tile);
}

/* The type also counts where all rows of the batch differ from the first layer on. */
static void sdxl(void)
{
    float now[3][SMALL], bare[SMALL];
    graft_model *xl = load_model(engine, SDXL);
    graft_controlnet *n = load_made(xl, make_union(xl, 1, 8));
    pair p = {prompt(xl, 1), prompt(xl, 2)};
    sample(xl, p, &usual, bare);
    for (int i = 0; i < 3; i++) {
        graft_controlnet *k = told(n, types[2 * i]);
        graft_control_options o = options(1);
        o.net = k;
        pair q = steer(p, &o);
        sample(xl, q, &usual, now[i]);
        CHECK(difference(now[i], bare, SMALL) > 1e-3);
        for (int j = 0; j < i; j++) CHECK(difference(now[i], now[j], SMALL) > 1e-3);
        drop(q);
        graft_controlnet_release(k);
    }
    drop(p);
    graft_controlnet_release(n);
    graft_model_release(xl);
}

/* ------------------------------------------------------------------ the run */

/* Another type compiles nothing and packs no weights. */
static void a_type_is_free(void)
{
    graft_compiled_stats before, after;
    float now[SMALL];
    run_told(many, "openpose", now);
    graft_compiled_stats_get(engine->compiled, &before);
    uint64_t bytes = packs_of(engine).bytes;
    for (int i = 0; i <= TYPES; i++) run_told(many, types[i], now);
    graft_compiled_stats_get(engine->compiled, &after);
    CHECK_INT(after.built, before.built);
    CHECK_INT(packs_of(engine).bytes, bytes);
}

/* compile_only compiles all that a chain of two types then needs. */
static void ahead_of_time(void)
{
    graft_compiled_stats before, after;
    graft_task task = {.compile_only = true};
    graft_engine *fresh = make_engine("cpu");
    graft_model *m = load_model(fresh, SD1);
    graft_controlnet *n = load_made(m, make_union(m, 1, 8)), *depth = told(n, "depth");
    graft_controlnet *pose = told(n, "openpose");
    graft_control_options o = options(1);
    float now[SMALL];
    o.net = depth;
    pair p = steered(&o);
    o.net = pose;
    pair q = steer(p, &o);
    sampling s = usual;
    s.task = &task;
    sample(m, q, &s, now);
    graft_compiled_stats_get(fresh->compiled, &before);
    s.task = NULL;
    sample(m, q, &s, now);
    graft_compiled_stats_get(fresh->compiled, &after);
    CHECK_INT(before.built, 4); /* hint, net, net on top of another, UNet */
    CHECK_INT(after.built, before.built);
    drop(p);
    drop(q);
    graft_controlnet_release(pose);
    graft_controlnet_release(depth);
    graft_controlnet_release(n);
    graft_model_release(m);
    graft_engine_destroy(fresh);
}

/* The least max_memory_mb that does for this run, which grows as more of it gets to run; or for
 * compiling it ahead. */
static int64_t needed(pair p, bool ahead)
{
    graft_task task = {.compile_only = ahead};
    sampling s = usual;
    float now[SMALL];
    graft_err e = GRAFT_ERR_INIT;
    int64_t least = 1;
    for (int tries = 0; tries < 10; tries++) {
        graft_model *m = NULL;
        const graft_compile_options c = {
            .precision = "f32", .tuning = "off", .max_memory_mb = least};
        CHECK_OK(graft_model_compile(model, &c, NULL, &m, &e), &e);
        s.task = &task;
        graft_status st = try_sample(m, p, &s, now, &e);
        graft_model_release(m);
        if (!st) return least;
        CHECK_INT(st, GRAFT_E_LIMIT);
        const char *at = strstr(e.text, "would do is ");
        least = at ? atoll(at + strlen("would do is ")) : 0;
    }
    CHECK(!"a limit that does");
    return 0;
}

/* What a chain of all these needs. */
static int64_t chain_needs(graft_controlnet *const *n, size_t count, bool ahead)
{
    pair p = {graft_cond_retain(positive), graft_cond_retain(negative)}, next;
    for (size_t i = 0; i < count; i++) {
        graft_control_options o = options(0.1);
        o.net = n[i];
        next = steer(p, &o);
        drop(p);
        p = next;
    }
    int64_t out = needed(p, ahead);
    drop(p);
    return out;
}

/* The weights of one that is there with several types count once. */
static void memory(void)
{
    graft_controlnet *as[TYPES], *same[TYPES], *apart[TYPES];
    for (int i = 0; i < TYPES; i++) {
        as[i] = told(many, types[1 + i]);
        same[i] = many;
        apart[i] = load_made(model, make_union(model, 1, 8));
    }
    for (int ahead = 0; ahead < 2; ahead++) {
        int64_t once = chain_needs(same, TYPES, ahead);
        CHECK_INT(chain_needs(as, TYPES, ahead), once);
        CHECK(chain_needs(apart, TYPES, ahead) > once);
    }
    for (int i = 0; i < TYPES; i++) {
        graft_controlnet_release(as[i]);
        graft_controlnet_release(apart[i]);
    }
}

/* Each picture of a batch sees its own hint alone: what another one shows changes nothing. */
static void batches(void)
{
    static float both[2 * SMALL], first[2 * SMALL];
    graft_image *two = control_hint(2, 64, 1);
    graft_controlnet *n = told(many, "normal");
    graft_control_options o = options(1);
    sampling s = usual;
    s.batch = 2;
    o.net = n;
    pair p = steered(&o);
    sample(model, p, &s, first); /* twice the one picture, which is the first of `two` */
    drop(p);
    o.hint = two;
    p = steered(&o);
    sample(model, p, &s, both);
    CHECK(difference(both, first, SMALL) < 1e-5);
    CHECK(difference(both + SMALL, first + SMALL, SMALL) > 1e-4);
    drop(p);
    graft_controlnet_release(n);
    graft_image_release(two);
}

/* The prompt that is steered counts in half of the picture: the hint is cut to it. */
static void areas(void)
{
    float now[2][SMALL];
    graft_err e = GRAFT_ERR_INIT;
    const graft_area left = {.width = 0.5, .height = 1, .shares = true};
    for (int i = 0; i < 2; i++) {
        graft_controlnet *n = told(many, types[1 + i]);
        graft_control_options o = options(1);
        graft_cond *half = NULL, *all = NULL;
        o.net = n;
        pair p = steered(&o);
        CHECK_OK(graft_cond_area(p.positive, &left, 1, &half, &e), &e);
        CHECK_OK(graft_cond_combine(positive, half, &all, &e), &e);
        run((pair){all, negative}, now[i]);
        CHECK(difference(now[i], plain, SMALL) > 1e-4);
        graft_cond_release(half);
        graft_cond_release(all);
        drop(p);
        graft_controlnet_release(n);
    }
    CHECK(difference(now[0], now[1], SMALL) > 1e-4);
}

/* DeepCache's fast steps keep what the type gave in the last whole step. */
static void deepcache(void)
{
    float now[2][SMALL], every[SMALL];
    graft_err e = GRAFT_ERR_INIT;
    const graft_deepcache_options third = {3, 0, 0, 0, 1000, "uniform", 0, true};
    graft_model *m = NULL;
    sampling s = usual;
    s.steps = 6;
    CHECK_OK(graft_model_deepcache(model, &third, &m, &e), &e);
    for (int i = 0; i < 2; i++) {
        graft_controlnet *n = told(many, types[1 + i]);
        graft_control_options o = options(1);
        o.net = n;
        pair p = steered(&o);
        sample(m, p, &s, now[i]);
        sample(model, p, &s, every);
        CHECK(difference(now[i], every, SMALL) < 0.5);
        CHECK(memcmp(now[i], every, sizeof every) != 0);
        drop(p);
        graft_controlnet_release(n);
    }
    CHECK(difference(now[0], now[1], SMALL) > 1e-3);
    graft_model_release(m);
}

/* Quantizing calibrates on such prompts, too. */
static void quantized(void)
{
    float now[SMALL], whole[SMALL];
    graft_err e = GRAFT_ERR_INIT;
    graft_controlnet *n = told(many, "canny/lineart/anime_lineart/mlsd");
    graft_control_options o = options(1);
    o.net = n;
    pair p = steered(&o);
    graft_latent *latent = NULL;
    graft_model *m = NULL;
    CHECK_OK(graft_latent_empty(4, 64, 64, 1, &latent, &e), &e);
    const graft_quantize_options quantize = quantizing(p, latent);
    run(p, whole);
    CHECK_OK(graft_model_quantize(model, &quantize, NULL, &m, NULL, &e), &e);
    if (m) {
        sample(m, p, &usual, now);
        CHECK(memcmp(now, whole, sizeof now) != 0);
        CHECK(difference(now, whole, SMALL) < 0.5);
    }
    graft_model_release(m);
    graft_latent_release(latent);
    drop(p);
    graft_controlnet_release(n);
}

/* ------------------------------------------------------------------ names and files */

static void types_that_are_none(void)
{
    graft_err e = GRAFT_ERR_INIT;
    graft_controlnet *out = NULL;
    CHECK_INT(graft_controlnet_with_type(many, "canny", NULL, &out, &e), GRAFT_E_ARG);
    CHECK(strstr(e.text, "\"canny\"") != NULL);
    CHECK_INT(graft_controlnet_with_type(net, "", NULL, &out, &e), GRAFT_E_ARG);
    for (int i = 7; i <= TYPES; i++) {
        CHECK_INT(graft_controlnet_with_type(few, types[i], NULL, &out, &e), GRAFT_E_ARG);
        CHECK(strstr(e.text, "knows 6 types") && strstr(e.text, types[i]));
        CHECK(strstr(e.text, "control.safetensors") != NULL);
    }
    CHECK(out == NULL);
    graft_controlnet_release(told(few, types[6]));
}

/* An ordinary ControlNet is given back as it is, with a word about it where a type was asked for.
 */
static void ordinary_ones_have_no_types(void)
{
    last_log[0] = 0;
    graft_controlnet *same = told(net, "auto");
    CHECK(same == net);
    CHECK_STR(last_log, "");
    graft_controlnet_release(same);
    same = told(net, "depth");
    CHECK(same == net);
    CHECK(strstr(last_log, "not a union ControlNet") && strstr(last_log, "depth"));
    graft_controlnet_release(same);
}

static void diffusers_names(void)
{
    float ours[SMALL], theirs[SMALL];
    made_file *f = make_union(model, 1, 8);
    to_diffusers(f, model);
    made_find(f, "task_embedding");
    made_find(f, "controlnet_cond_embedding.conv_in.weight");
    last_log[0] = 0;
    graft_controlnet *n = load_made(model, f);
    CHECK_STR(last_log, "");
    CHECK_INT(n->arch.types, 8);
    run_told(n, "repaint", theirs);
    run_told(many, "repaint", ours);
    CHECK(memcmp(ours, theirs, sizeof ours) == 0);
    graft_controlnet_release(n);
}

/* Any of its own parts may be missing: an error, which names it. */
static void any_tensor_missing(void)
{
    for (int theirs = 0; theirs < 2; theirs++)
        for (size_t i = 0, n = 1; i < n; i++) {
            made_file *f = make_union(model, 1, 6);
            if (theirs) to_diffusers(f, model);
            n = f->n;
            const char *below = f->tensor[i].name + (theirs ? 0 : strlen("control_model."));
            char name[256];
            if (!graft_control_union_has(below)) {
                finish_file(f);
                continue;
            }
            snprintf(name, sizeof name, "%s", below);
            remove_tensor(f, f->tensor[i].name);
            expect_refusal(f, GRAFT_E_FORMAT, name);
        }
}

/* Replaces a tensor by random values of another shape. */
static made_file *reshaped(const char *name, int rank, int64_t a, int64_t b)
{
    made_file *f = make_union(model, 1, 8);
    char full[256];
    snprintf(full, sizeof full, "control_model.%s", name);
    remove_tensor(f, full);
    add_tensor(f, full, rank, (int64_t[]){a, b}, NULL, 1);
    return f;
}

static void odd_files(void)
{
    const char *task = "task_embedding", *all = "control_add_embedding.linear_1.weight";
    int64_t c = model->arch.unet.model_channels, t = model->arch.unet.time_dim;
    expect_refusal(reshaped(task, 2, 7, c), GRAFT_E_UNSUPPORTED, "for 7 types");
    expect_refusal(reshaped(task, 2, 1 << 20, 1), GRAFT_E_UNSUPPORTED, "for 1048576 types");
    expect_refusal(reshaped(task, 2, 8, c - 1), GRAFT_E_UNSUPPORTED, "are 31 values wide");
    expect_refusal(reshaped(task, 1, 8, 0), GRAFT_E_FORMAT, task);
    expect_refusal(reshaped(all, 2, t, 8 * 7), GRAFT_E_UNSUPPORTED, "and 56 in its time embedding");
    expect_refusal(reshaped(all, 2, t, 2 * 8 - 1), GRAFT_E_UNSUPPORTED, "and 15 in its");
    expect_refusal(reshaped(all, 1, 8, 0), GRAFT_E_FORMAT, all);
    expect_refusal(reshaped(all, 2, t + 1, 64), GRAFT_E_FORMAT, all);
    expect_refusal(reshaped("spatial_ch_projs.weight", 2, c, c + 1), GRAFT_E_FORMAT,
                   "spatial_ch_projs.weight");
    expect_refusal(reshaped("transformer_layes.0.attn.in_proj_weight", 2, c, c), GRAFT_E_FORMAT,
                   "in_proj_weight");
    expect_refusal(reshaped("transformer_layes.0.mlp.c_fc.weight", 2, c, c), GRAFT_E_FORMAT,
                   "mlp.c_fc.weight");
    /* A second layer of which only the first tensor is there. */
    made_file *f = make_union(model, 1, 8);
    add_part(f, "transformer_layes.1.attn.in_proj_weight", 2, 3 * c, c);
    expect_refusal(f, GRAFT_E_FORMAT, "transformer_layes.1.");
}

int main(void)
{
    control_begin();
    many = load_made(model, make_union(model, 1, 8));
    few = load_made(model, make_union(model, 1, 6));
    RUN(each_type_counts);
    RUN(untold_is_an_ordinary_one);
    RUN(nothing_is_nothing_of_any_type);
    RUN(types_add_up);
    RUN(sdxl);
    RUN(a_type_is_free);
    RUN(ahead_of_time);
    RUN(memory);
    RUN(batches);
    RUN(areas);
    RUN(deepcache);
    RUN(quantized);
    RUN(types_that_are_none);
    RUN(ordinary_ones_have_no_types);
    RUN(diffusers_names);
    RUN(any_tensor_missing);
    RUN(odd_files);
    graft_controlnet_release(many);
    graft_controlnet_release(few);
    control_end();
    return test_end();
}
