/* ControlNets: what they add, to whom and when, that their strength is a run's, that they go with
 * batches, DeepCache and limits of memory, and that wrong files are refused. What their values are
 * is for the golden tests. */
#include "tests/engine/control.h"

#include "engine/api/denoise.h"
#include "engine/models/diffusers.h"
#include "tests/engine/sample.h"

static graft_engine *engine;
static graft_model *model;
static graft_controlnet *net, *silent;
static graft_image *hint;
static graft_cond *positive, *negative;

enum { SMALL = 4 * 8 * 8 };

/* ------------------------------------------------------------------ sampling */

static graft_cond *prompt(const graft_model *m, uint64_t seed)
{
    int64_t n = TOKENS * m->arch.context_dim;
    float *data = graft_malloc_array((size_t)n, sizeof *data);
    graft_cond *out = NULL;
    graft_err e = GRAFT_ERR_INIT;
    for (int64_t i = 0; i < n; i++) data[i] = fixed_value(seed * 1000003 + (uint64_t)i);
    CHECK_OK(graft_cond_create(TOKENS, m->arch.context_dim, data, 0, NULL, NULL, &out, &e), &e);
    return out;
}

static graft_control_options options(double strength)
{
    return (graft_control_options){.net = net, .hint = hint, .strength = strength, .end = 1};
}

/* Both prompts, steered; to be released. */
typedef struct pair {
    graft_cond *positive, *negative;
} pair;

static pair steer(pair p, const graft_control_options *o)
{
    pair out = {NULL, NULL};
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(graft_cond_control(p.positive, p.negative, o, &out.positive, &out.negative, &e), &e);
    return out;
}

static pair steered(const graft_control_options *o)
{
    return steer((pair){positive, negative}, o);
}

static void drop(pair p)
{
    graft_cond_release(p.positive);
    graft_cond_release(p.negative);
}

typedef struct sampling {
    int64_t batch, steps;
    double cfg;
    const char *sampler;
    graft_task *task;
} sampling;

static graft_status try_sample(const graft_model *m, pair p, const sampling *s, float *out,
                               graft_err *e)
{
    const graft_sample_params params = {.seed = 5,
                                        .add_noise = true,
                                        .steps = s->steps,
                                        .cfg = s->cfg,
                                        .sampler = s->sampler,
                                        .scheduler = "normal",
                                        .denoise = 1.0,
                                        .end_at_step = 10000};
    graft_latent *from = NULL, *to = NULL;
    int64_t shape[4];
    graft_status st = graft_latent_empty(64, 64, s->batch, &from, e);
    if (!st) st = graft_sample(m, &params, p.positive, p.negative, from, s->task, &to, e);
    if (!st) {
        const float *data = graft_latent_data(to, shape);
        memcpy(out, data, (size_t)s->batch * SMALL * sizeof *out);
    }
    graft_latent_release(from);
    graft_latent_release(to);
    return st;
}

static void sample(const graft_model *m, pair p, const sampling *s, float *out)
{
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(try_sample(m, p, s, out, &e), &e);
}

static const sampling usual = {1, 4, 4.0, "euler", NULL};
static float plain[SMALL], with[SMALL];

/* What sampling gives with these prompts. */
static void run(pair p, float *out)
{
    sample(model, p, &usual, out);
}

static void steer_and_run(const graft_control_options *o, float *out)
{
    pair p = steered(o);
    run(p, out);
    drop(p);
}

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
    steer_and_run(&(graft_control_options){net, hint, 1, 0, 1, false}, once);
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
    CHECK_OK(graft_latent_empty(64, 64, 1, &latent, &e), &e);
    const graft_quantize_options quantize = {.bits = 8,
                                             .conv = true,
                                             .linear = true,
                                             .conv_mse_threshold = 1,
                                             .linear_mse_threshold = 1,
                                             .positive = p.positive,
                                             .negative = p.negative,
                                             .latent = latent,
                                             .steps = 4,
                                             .cfg = 4,
                                             .seed = 5};
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

/* ------------------------------------------------------------------ refusals */

static graft_status load(made_file *f, const char *config, graft_err *e)
{
    const char *path = temp_path("broken.safetensors");
    graft_controlnet *n = NULL;
    write_file(f, path, config);
    graft_status st = graft_controlnet_load(engine, path, NULL, &n, e);
    graft_controlnet_release(n);
    unlink(path);
    return st;
}

static void remove_tensor(made_file *f, const char *name)
{
    graft_st_tensor *t = made_find(f, name), gone = *t;
    *t = f->tensor[--f->n];
    free((char *)gone.name);
    free((void *)gone.data);
}

static void expect_refusal(made_file *f, graft_status want, const char *text)
{
    graft_err e = GRAFT_ERR_INIT;
    CHECK_INT(load(f, control_config(model), &e), want);
    if (!strstr(e.text, text)) CHECK_STR(e.text, text);
}

static void wrong_files(void)
{
    static const char *const needed[] = {
        "control_model.zero_convs.1.0.weight", "control_model.middle_block_out.0.bias",
        "control_model.input_hint_block.4.bias", "control_model.time_embed.0.weight",
        "control_model.input_blocks.1.0.in_layers.2.weight"};
    for (size_t i = 0; i < sizeof needed / sizeof *needed; i++) {
        made_file *f = make_control(model, 1);
        remove_tensor(f, needed[i]);
        expect_refusal(f, GRAFT_E_FORMAT, needed[i] + strlen("control_model."));
    }
    made_file *f = make_control(model, 1);
    remove_tensor(f, "control_model.input_hint_block.0.weight");
    expect_refusal(f, GRAFT_E_UNSUPPORTED, "input_hint_block.0.weight is missing");
    f = make_control(model, 1);
    remove_tensor(f, "control_model.input_hint_block.14.weight");
    expect_refusal(f, GRAFT_E_UNSUPPORTED, "7 convolutions");
    f = make_control(model, 1);
    made_find(f, "control_model.zero_convs.2.0.bias")->shape[0] -= 1;
    made_find(f, "control_model.zero_convs.2.0.bias")->bytes -= sizeof(float);
    expect_refusal(f, GRAFT_E_FORMAT, "zero_convs.2.0.bias");
    f = make_control(model, 1);
    add_tensor(f, "control_model.task_embedding", 1, (int64_t[]){1}, NULL, 1);
    expect_refusal(f, GRAFT_E_UNSUPPORTED, "union");
    f = calloc(1, sizeof *f);
    add_tensor(f, "lora_controlnet", 1, (int64_t[]){1}, NULL, 1);
    expect_refusal(f, GRAFT_E_UNSUPPORTED, "Control-LoRA");
    graft_controlnet *n = NULL;
    graft_err e = GRAFT_ERR_INIT;
    CHECK(load(make_control(model, 1), "nonsense", &e) && strstr(e.text, "broken.safetensors"));
    CHECK_INT(graft_controlnet_load(engine, SD1, NULL, &n, &e), GRAFT_E_UNSUPPORTED);
    CHECK_INT(graft_controlnet_load(engine, "/nowhere", NULL, &n, &e), GRAFT_E_NOTFOUND);
}

/* The same file by diffusers' names. */
static made_file *in_diffusers(const graft_model *m)
{
    made_file *f = make_control(m, 1);
    for (size_t i = 0; i < f->n; i++) {
        char layer[256], name[300];
        const char *below = f->tensor[i].name + strlen("control_model."),
                   *end = strrchr(below, '.');
        snprintf(layer, sizeof layer, "%.*s", (int)(end - below), below);
        CHECK(graft_diffusers_control_name(&m->arch, layer, name, 256));
        snprintf(name + strlen(name), sizeof name - strlen(name), "%s", end);
        free((char *)f->tensor[i].name);
        f->tensor[i].name = strdup(name);
    }
    return f;
}

static void diffusers_names(void)
{
    static const char *const some[] = {"conv_in.weight",
                                       "time_embedding.linear_2.bias",
                                       "controlnet_cond_embedding.conv_in.weight",
                                       "controlnet_cond_embedding.blocks.5.weight",
                                       "controlnet_cond_embedding.conv_out.bias",
                                       "down_blocks.0.resnets.0.conv1.weight",
                                       "down_blocks.0.downsamplers.0.conv.weight",
                                       "down_blocks.1.resnets.0.conv_shortcut.weight",
                                       "down_blocks.1.attentions.0.proj_in.weight",
                                       "mid_block.resnets.1.norm2.weight",
                                       "controlnet_down_blocks.0.weight",
                                       "controlnet_mid_block.bias"};
    float ours[SMALL], theirs[SMALL];
    for (int i = 0; i < 2; i++) {
        graft_model *m = load_model(engine, i ? SDXL : SD1);
        const char *path = temp_path("diffusers.safetensors");
        random_state = 1; /* the same values in both */
        graft_controlnet *a = made_control(m, 1), *b;
        random_state = 1;
        made_file *f = in_diffusers(m);
        for (size_t k = 0; k < sizeof some / sizeof *some && !i; k++) made_find(f, some[k]);
        write_file(f, path, control_config(m));
        last_log[0] = 0;
        b = load_control(engine, path);
        CHECK_STR(last_log, ""); /* every tensor is read */
        unlink(path);
        CHECK_INT(a->arch.half.n_input, b->arch.half.n_input);
        CHECK(memcmp(&a->arch.half, &b->arch.half, sizeof a->arch.half) == 0);
        pair p = {prompt(m, 1), prompt(m, 2)}, q;
        graft_control_options o = options(1);
        o.net = a;
        q = steer(p, &o);
        sample(m, q, &usual, ours);
        drop(q);
        o.net = b;
        q = steer(p, &o);
        sample(m, q, &usual, theirs);
        drop(q);
        CHECK(memcmp(ours, theirs, sizeof ours) == 0);
        drop(p);
        graft_controlnet_release(a);
        graft_controlnet_release(b);
        graft_model_release(m);
    }
}

/* Any tensor may be missing: an error, which names a tensor of the file. */
static void any_tensor_missing(void)
{
    for (int theirs = 0; theirs < 2; theirs++)
        for (size_t i = 0, n = 1; i < n; i++) {
            made_file *f = theirs ? in_diffusers(model) : make_control(model, 1);
            graft_err e = GRAFT_ERR_INIT;
            n = f->n;
            char name[256];
            snprintf(name, sizeof name, "%s", f->tensor[i].name);
            remove_tensor(f, f->tensor[i].name);
            graft_status st = load(f, control_config(model), &e);
            CHECK(st == GRAFT_E_FORMAT || st == GRAFT_E_UNSUPPORTED);
            if (!strstr(e.text, "broken.safetensors")) CHECK_STR(e.text, name);
        }
}

/* A tensor that nothing reads is told and no obstacle. */
static void leftovers(void)
{
    graft_err e = GRAFT_ERR_INIT;
    made_file *f = make_control(model, 1);
    add_tensor(f, "control_model.unknown.weight", 1, (int64_t[]){1}, NULL, 1);
    last_log[0] = 0;
    CHECK_OK(load(f, control_config(model), &e), &e);
    CHECK(strstr(last_log, "ignored 1 tensor") && strstr(last_log, "control_model.unknown.weight"));
    last_log[0] = 0;
    CHECK_OK(load(make_control(model, 1), control_config(model), &e), &e);
    CHECK_STR(last_log, "");
}

static void wrong_model(void)
{
    float now[SMALL];
    graft_err e = GRAFT_ERR_INIT;
    graft_model *xl = load_model(engine, SDXL);
    graft_control_options o = options(1);
    pair p = {prompt(xl, 1), prompt(xl, 2)}, q = steer(p, &o);
    CHECK_INT(try_sample(xl, q, &usual, now, &e), GRAFT_E_ARG);
    CHECK(strstr(e.text, "belongs to another kind of model") != NULL);
    CHECK(strstr(e.text, "control.safetensors") != NULL); /* which one of several */
    drop(p);
    drop(q);
    graft_model_release(xl);
    o.strength = NAN;
    graft_cond *a = NULL, *b = NULL;
    CHECK_INT(graft_cond_control(positive, negative, &o, &a, &b, &e), GRAFT_E_ARG);
    o = options(1), o.end = INFINITY;
    CHECK_INT(graft_cond_control(positive, negative, &o, &a, &b, &e), GRAFT_E_ARG);
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

/* The number that a message about max_memory_mb ends with. */
static int64_t promised(const char *text)
{
    const char *at = strstr(text, "would do is ");
    return at ? atoll(at + strlen("would do is ")) : 0;
}

/* max_memory_mb counts the ControlNets, too. */
static void memory(void)
{
    float now[SMALL];
    graft_err e = GRAFT_ERR_INIT;
    graft_control_options o = options(1);
    pair bare = {positive, negative}, p = steered(&o);
    int64_t least = 0, most = 0, told = 0;
    for (int64_t mib = 1; mib < 200 && !most; mib++) {
        graft_model *m = NULL;
        graft_compile_options c = {.precision = "f32", .tuning = "off", .max_memory_mb = mib};
        CHECK_OK(graft_model_compile(model, &c, NULL, &m, &e), &e);
        graft_status alone = try_sample(m, bare, &usual, now, &e);
        if (!alone && !least) least = mib;
        graft_status st = try_sample(m, p, &usual, now, &e);
        CHECK(st == GRAFT_OK || st == GRAFT_E_LIMIT);
        if (!st) {
            most = mib;
            CHECK(memcmp(now, with, sizeof now) == 0);
        } else if (!alone) {
            told = promised(e.text);
            CHECK(strstr(e.text, "of ControlNets), more than the") != NULL);
            CHECK(told > mib);
        }
        graft_model_release(m);
    }
    CHECK(least > 0 && most > least);
    CHECK_INT(most, told);
    drop(p);
}

/* GRAFT_MEMORY_MB does, for all of an engine: what it then has in memory is no more. */
static void memory_of_the_engine(void)
{
    float now[SMALL];
    graft_err e = GRAFT_ERR_INIT;
    int64_t most = 0, told = 0;
    for (int64_t mib = 1; mib < 200 && !most; mib++) {
        char text[16];
        snprintf(text, sizeof text, "%lld", (long long)mib);
        setenv("GRAFT_MEMORY_MB", text, 1);
        graft_engine *tight = make_engine("cpu");
        graft_model *m = load_model(tight, SD1);
        random_state = 1;
        graft_controlnet *n = made_control(m, 1);
        graft_control_options o = options(1);
        o.net = n;
        pair p = steered(&o);
        graft_status st = try_sample(m, p, &usual, now, &e);
        CHECK(st == GRAFT_OK || st == GRAFT_E_LIMIT);
        CHECK(packs_of(tight).bytes + graft_arenas_bytes(tight->arenas) <= (uint64_t)mib << 20);
        if (!st) {
            most = mib;
        } else if (strstr(e.text, "unet with its ControlNets")) {
            const char *number = strstr(e.text, "would do is ");
            told = number ? strtoll(number + strlen("would do is "), NULL, 10) : 0;
        }
        drop(p);
        graft_controlnet_release(n);
        graft_model_release(m);
        graft_engine_destroy(tight);
    }
    unsetenv("GRAFT_MEMORY_MB");
    CHECK(most > 1);
    CHECK_INT(told, most);
}

/* Each ControlNet of a long chain counts once, also when the UNet without them is bound last. */
static void long_chains(void)
{
    enum { NETS = 20 };
    float now[SMALL];
    graft_err e = GRAFT_ERR_INIT;
    graft_controlnet *each[NETS];
    graft_model *m = NULL;
    pair p = {graft_cond_retain(positive), graft_cond_retain(negative)}, next;
    for (int i = 0; i < NETS; i++) {
        graft_control_options o = options(0.05);
        o.end = 0.9;
        o.net = each[i] = made_control(model, 1);
        next = steer(p, &o);
        drop(p);
        p = next;
    }
    sampling s = usual;
    s.steps = 2;
    int64_t told = 1;
    for (int tries = 0; tries < 5; tries++) {
        graft_compile_options c = {.precision = "f32", .tuning = "off", .max_memory_mb = told};
        CHECK_OK(graft_model_compile(model, &c, NULL, &m, &e), &e);
        graft_status st = try_sample(m, p, &s, now, &e);
        if (!st) break;
        CHECK_INT(st, GRAFT_E_LIMIT);
        told = promised(e.text);
        graft_model_release(m);
        m = NULL;
    }
    CHECK(m != NULL);
    s.steps = 30;
    if (m) sample(m, p, &s, now);
    graft_model_release(m);
    drop(p);
    for (int i = 0; i < NETS; i++) graft_controlnet_release(each[i]);
}

int main(void)
{
    engine = make_engine("cpu");
    model = load_model(engine, SD1);
    net = made_control(model, 1);
    silent = made_control(model, 0);
    hint = control_hint(1, 64, 1);
    positive = prompt(model, 1);
    negative = prompt(model, 2);
    run((pair){positive, negative}, plain);
    graft_control_options o = options(1);
    steer_and_run(&o, with);
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
    RUN(wrong_files);
    RUN(any_tensor_missing);
    RUN(diffusers_names);
    RUN(leftovers);
    RUN(wrong_model);
    RUN(sdxl);
    RUN(memory);
    RUN(memory_of_the_engine);
    RUN(long_chains);
    graft_cond_release(positive);
    graft_cond_release(negative);
    graft_image_release(hint);
    graft_controlnet_release(net);
    graft_controlnet_release(silent);
    graft_model_release(model);
    graft_engine_destroy(engine);
    return test_end();
}
