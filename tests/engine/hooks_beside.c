/* Hooks beside all else that changes a model or a sampling: checkpoints as hooks, swaps, precision,
 * quantized layers, calibration, DeepCache, EasyCache, limits of memory, compiling ahead; and what
 * is refused. What hooks compute is hooks.c's. */
#include "engine/calibrate/quantize.h"
#include "tests/engine/control.h"
#include "tests/engine/gguf_network.h"
#include "tests/engine/hooks.h"

static graft_model *model;
static graft_cond *p, *n; /* prompts without hooks */
static char lora[256], other[256];

static const char *const parts[] = {"attn1", "ff.net.2"};

/* Both prompts with hooks, as LoraLoader changes both. */
typedef struct pair {
    graft_cond *p, *n;
} pair;

static pair both_with(const graft_hooks *h)
{
    return (pair){hooked(graft_cond_retain(p), h), hooked(graft_cond_retain(n), h)};
}

static void pair_finish(pair k)
{
    graft_cond_release(k.p);
    graft_cond_release(k.n);
}

/* The same picture by the hook as by a loader on this model. Returns its latent. */
static void check_same(const graft_model *m, const graft_hooks *h, double strength, float got[N])
{
    graft_model *l = loaded_with(m, lora, strength);
    pair k = both_with(h);
    float want[N];
    run(&(run_of){.model = l, .positive = p, .negative = n}, want);
    const uint64_t built = graphs_built(engine);
    run(&(run_of){.model = m, .positive = k.p, .negative = k.n}, got);
    CHECK(same(want, got));
    CHECK_INT(graphs_built(engine), built);
    pair_finish(k);
    graft_model_release(l);
}

/* ------------------------------------------------------------------ models */

static void swapped_weights(void)
{
    graft_hooks *h = and_lora(NULL, lora, 0.7);
    float first[N], second[N], again[N];
    for (int keep = 0; keep < 2; keep++) {
        check_same(model, h, 0.7, first);
        graft_model *b = swap_weights(model, other, keep), *a = swap_weights(b, SD1, keep);
        b->scale_factor = a->scale_factor = 1;
        check_same(b, h, 0.7, second);
        check_same(a, h, 0.7, again);
        CHECK(same(first, again) && !same(first, second));
        graft_model_release(a);
        graft_model_release(b);
    }
    graft_hooks_release(h);
}

static graft_model *compiled(const char *precision, int64_t mib)
{
    const graft_compile_options o = {.precision = precision, .tuning = "off", .max_memory_mb = mib};
    graft_model *m = NULL;
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(graft_model_compile(model, &o, NULL, &m, &e), &e);
    return m;
}

static void in_bf16(void)
{
    graft_hooks *h = and_lora(NULL, lora, 0.7);
    graft_model *m = compiled("bf16", 0);
    float now[N];
    check_same(m, h, 0.7, now);
    graft_model_release(m);
    graft_hooks_release(h);
}

static const graft_quantize_options all_layers = {.bits = 8,
                                                  .conv = true,
                                                  .linear = true,
                                                  .conv_mse_threshold = 1,
                                                  .linear_mse_threshold = 1,
                                                  .steps = 2,
                                                  .cfg = 4};

/* Quantized by a plan, and by the first sampling run, which looks at the model without hooks. */
static void quantized(void)
{
    graft_hooks *h = and_lora(NULL, lora, 0.7);
    graft_latent *l = NULL;
    graft_model *q = NULL, *later = NULL;
    graft_quantize_options o = all_layers;
    graft_err e = GRAFT_ERR_INIT;
    float plain[N], now[N], first[N];
    CHECK_OK(graft_latent_empty(4, 8 * W, 8 * H, 1, &l, &e), &e);
    o.positive = p;
    o.negative = n;
    o.latent = l;
    CHECK_OK(graft_model_quantize(model, &o, NULL, &q, NULL, &e), &e);
    CHECK(q->quant.bits == 8);
    check_same(model, h, 0.7, plain);
    check_same(q, h, 0.7, now);
    CHECK(!same(plain, now));
    o.positive = o.negative = NULL;
    o.latent = NULL;
    CHECK_OK(graft_model_quantize(model, &o, NULL, &later, NULL, &e), &e);
    pair k = both_with(h);
    run(&(run_of){.model = later, .positive = k.p, .negative = k.n}, first);
    check_same(later, h, 0.7, now);
    CHECK(same(first, now));
    pair_finish(k);
    graft_latent_release(l);
    graft_model_release(q);
    graft_model_release(later);
    graft_hooks_release(h);
}

/* Layers that stay packed as in their file: those that hooks change are packed anew, in one graph
 * for all strengths. */
static void packed(void)
{
    graft_engine *own = engine;
    const char *path = temp_path("packed.gguf");
    float now[N], other_strength[N];
    setenv("GRAFT_PACKED", "keep", 1);
    engine = make_engine("cpu");
    unsetenv("GRAFT_PACKED");
    write_network(path, several);
    graft_model *m = load_model(engine, path);
    CHECK(count_kept(m) > 30);
    m->scale_factor = 1;
    graft_hooks *h = and_lora(NULL, lora, 0.7), *weak = and_lora(NULL, lora, 0.2);
    check_same(m, h, 0.7, now);
    const uint64_t built = graphs_built(engine);
    check_same(m, weak, 0.2, other_strength);
    CHECK_INT(graphs_built(engine), built);
    CHECK(!same(now, other_strength));
    graft_hooks_release(h);
    graft_hooks_release(weak);
    graft_model_release(m);
    graft_engine_destroy(engine);
    engine = own;
    unlink(path);
}

/* ------------------------------------------------------------------ checkpoints */

static graft_hooks *of_checkpoint(const char *path, double strength)
{
    graft_hooks *h = NULL;
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(graft_hooks_checkpoint(engine, NULL, path, strength, 0, NULL, &h, &e), &e);
    return h;
}

/* At 1 it is the other checkpoint, bit for bit; else between the two, or beyond; LoRAs stay. */
static void checkpoints(void)
{
    graft_err e = GRAFT_ERR_INIT;
    graft_model *b = swap_weights(model, other, true), *merged = NULL, *a = NULL, *on_b = NULL;
    float want[N], got[N];
    b->scale_factor = 1;
    graft_hooks *whole = of_checkpoint(other, 1), *part = of_checkpoint(other, 0.25);
    pair k = both_with(whole);
    run(&(run_of){.model = b, .positive = p, .negative = n}, want);
    run(&(run_of){.model = model, .positive = k.p, .negative = k.n}, got);
    CHECK(same(want, got));
    /* The model's LoRA is on top of it, and so is a hook behind it. */
    a = loaded_with(model, lora, 0.5);
    on_b = loaded_with(b, lora, 0.5);
    run(&(run_of){.model = on_b, .positive = p, .negative = n}, want);
    run(&(run_of){.model = a, .positive = k.p, .negative = k.n}, got);
    CHECK(difference(got, want, N) < 1e-4);
    pair_finish(k);
    k = both_with(part);
    const graft_merge_ratio ratio = {0.75, 0.75, 0.75};
    CHECK_OK(graft_model_merge(model, b, &ratio, &merged, &e), &e);
    run(&(run_of){.model = merged, .positive = p, .negative = n}, want);
    run(&(run_of){.model = model, .positive = k.p, .negative = k.n}, got);
    CHECK(difference(got, want, N) < 1e-4);
    pair_finish(k);
    graft_model *const models[] = {b, merged, a, on_b};
    for (int i = 0; i < 4; i++) graft_model_release(models[i]);
    graft_hooks_release(whole);
    graft_hooks_release(part);
}

/* ------------------------------------------------------------------ other networks */

static graft_cond *steered(graft_cond *c, const graft_controlnet *net, const graft_image *hint)
{
    const graft_control_options o = {.net = net, .hint = hint, .strength = 1, .end = 1};
    graft_cond *out = NULL;
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(graft_cond_control(c, NULL, &o, &out, NULL, &e), &e);
    graft_cond_release(c);
    return out;
}

/* A ControlNet steers prompts with hooks as it steers a model with a LoRA. */
static void controlnets(void)
{
    graft_controlnet *net = made_control(model, 1);
    float want[N], got[N], without[N];
    graft_image *hint = control_hint(1, 64, 3);
    graft_hooks *h = and_lora(NULL, lora, 0.7);
    graft_model *l = loaded_with(model, lora, 0.7);
    graft_cond *plain = steered(graft_cond_retain(p), net, hint);
    graft_cond *both_of = hooked(graft_cond_retain(plain), h),
               *other_side = hooked(graft_cond_retain(n), h);
    run(&(run_of){.model = l, .positive = plain, .negative = n}, want);
    run(&(run_of){.model = model, .positive = both_of, .negative = other_side}, got);
    CHECK(same(want, got));
    run(&(run_of){.model = l, .positive = p, .negative = n}, without);
    CHECK(difference(got, without, N) > 1e-3);
    graft_cond *const conds[] = {plain, both_of, other_side};
    for (int i = 0; i < 3; i++) graft_cond_release(conds[i]);
    graft_hooks_release(h);
    graft_model_release(l);
    graft_image_release(hint);
    graft_controlnet_release(net);
}

/* Of two models each has the hooks of its prompts. */
static void two_models(void)
{
    graft_model *b = swap_weights(model, other, true);
    b->scale_factor = 1;
    graft_model *la = loaded_with(model, lora, 0.7), *lb = loaded_with(b, lora, 0.7);
    graft_hooks *h = and_lora(NULL, lora, 0.7);
    pair k = both_with(h);
    graft_sigmas *sigmas = NULL;
    graft_latent *from = NULL, *to[2] = {NULL, NULL};
    graft_err e = GRAFT_ERR_INIT;
    int64_t shape[4];
    CHECK_OK(graft_sigmas_from_model(model, "normal", STEPS, 1, &sigmas, &e), &e);
    CHECK_OK(graft_latent_empty(4, 8 * W, 8 * H, 1, &from, &e), &e);
    graft_sampling s = {.model = la,
                        .negative_model = lb,
                        .positive = p,
                        .negative = n,
                        .cfg = 4,
                        .sampler = "euler",
                        .sigmas = sigmas,
                        .add_noise = true,
                        .seed = 5};
    CHECK_OK(graft_sample_custom(&s, from, NULL, &to[0], NULL, &e), &e);
    s.model = model;
    s.negative_model = b;
    s.positive = k.p;
    s.negative = k.n;
    CHECK_OK(graft_sample_custom(&s, from, NULL, &to[1], NULL, &e), &e);
    if (to[0] && to[1])
        CHECK(same(graft_latent_data(to[0], shape), graft_latent_data(to[1], shape)));
    for (int i = 0; i < 2; i++) graft_latent_release(to[i]);
    graft_latent_release(from);
    graft_sigmas_release(sigmas);
    pair_finish(k);
    graft_hooks_release(h);
    graft_model *const models[] = {b, la, lb};
    for (int i = 0; i < 3; i++) graft_model_release(models[i]);
}

/* ------------------------------------------------------------------ fewer evaluations */

static graft_hooks *switching(double share)
{
    const graft_keyframe list[] = {{0, 1}, {share, 0.25}};
    return keyed(and_lora(NULL, lora, 0.8), list, 2);
}

/* The step of a switch is whole, as the first one of a sampling is. */
static void deepcache(void)
{
    graft_model *d = with_deepcache(model, 1000, 0, 1);
    graft_model *strong = loaded_with(d, lora, 0.8), *weak = loaded_with(d, lora, 0.2);
    graft_hooks *h = switching(share_before(model, 3));
    pair k = both_with(h);
    float want[N], got[N];
    run_two(&(run_of){.model = strong, .positive = p, .negative = n},
            &(run_of){.model = weak, .positive = p, .negative = n}, 3, want);
    run(&(run_of){.model = d, .positive = k.p, .negative = k.n}, got);
    CHECK(same(want, got));
    /* Of one side alone the other goes on. */
    run(&(run_of){.model = d, .positive = k.p, .negative = n}, got);
    CHECK(!same(want, got));
    pair_finish(k);
    graft_hooks_release(h);
    graft_model *const models[] = {d, strong, weak};
    for (int i = 0; i < 3; i++) graft_model_release(models[i]);
}

static char info[300];
static void keep_info(void *ctx, int32_t level, const char *text)
{
    (void)ctx, (void)level;
    if (strstr(text, "evaluations")) snprintf(info, sizeof info, "%s", text);
}

/* What was answered with other weights is not told from. */
static void easycache(void)
{
    const graft_easycache_options o = {.threshold = 3, .start = 0, .end = 1, .verbose = true};
    graft_model *m = NULL;
    graft_err e = GRAFT_ERR_INIT;
    graft_task task = {.log = {.line = keep_info}};
    graft_hooks *h = switching(share_before(model, 3)), *all = and_lora(NULL, lora, 0.8);
    float now[N];
    int without = 0, with = 0;
    CHECK_OK(graft_model_easycache(model, &o, &m, &e), &e);
    pair k = both_with(all);
    run(&(run_of){.model = m, .positive = k.p, .negative = k.n, .task = &task}, now);
    CHECK(sscanf(info, "EasyCache: %d", &without) == 1);
    pair_finish(k);
    k = both_with(h);
    run(&(run_of){.model = m, .positive = k.p, .negative = k.n, .task = &task}, now);
    CHECK(sscanf(info, "EasyCache: %d", &with) == 1);
    CHECK(without > 2 && with >= 1 && with < without);
    pair_finish(k);
    graft_hooks_release(h);
    graft_hooks_release(all);
    graft_model_release(m);
}

/* ------------------------------------------------------------------ memory and compiling */

/* Positive prompts have other weights than negative ones: where both have no room at a time, each
 * call brings its own, and the picture is the same. */
static void limits_of_memory(void)
{
    graft_hooks *h = of_checkpoint(other, 0.5);
    pair k = both_with(h);
    float want[N], got[N];
    graft_err e = GRAFT_ERR_INIT;
    int64_t enough = 0, plain = 0;
    run(&(run_of){.model = model, .positive = k.p, .negative = n}, want);
    for (int64_t mib = 1; mib < 60 && !enough; mib++) {
        graft_model *m = compiled("f32", mib);
        m->scale_factor = 1;
        if (!plain && !try_run(&(run_of){.model = m, .positive = p, .negative = p}, got, &e))
            plain = mib;
        graft_status st = try_run(&(run_of){.model = m, .positive = k.p, .negative = n}, got, &e);
        CHECK(st == GRAFT_OK || st == GRAFT_E_LIMIT);
        if (!st) enough = mib;
        if (!st) CHECK(same(want, got));
        graft_model_release(m);
    }
    CHECK(plain > 0 && enough > 0 && enough <= plain + 1);
    /* Nothing stays that is not needed. */
    graft_model *m = compiled("f32", 200);
    m->scale_factor = 1;
    graft_hooks *fresh = switching(share_before(model, 3));
    pair f = both_with(fresh);
    run(&(run_of){.model = m, .positive = f.p, .negative = f.n}, got);
    CHECK_INT(f.p->entry[0]->hooks->n_sets, 0);
    pair_finish(f);
    graft_hooks_release(fresh);
    graft_model_release(m);
    pair_finish(k);
    graft_hooks_release(h);
}

/* The same of the limit that a process has. */
static void memory_of_the_engine(void)
{
    graft_engine *own = engine;
    graft_err e = GRAFT_ERR_INIT;
    graft_hooks *h = of_checkpoint(other, 0.5);
    pair k = both_with(h);
    float want[N], got[N];
    int64_t enough = 0, plain = 0;
    run(&(run_of){.model = model, .positive = k.p, .negative = n}, want);
    pair_finish(k);
    graft_hooks_release(h);
    for (int64_t mib = 1; mib < 60 && !enough; mib++) {
        char text[24];
        snprintf(text, sizeof text, "%d", (int)mib);
        setenv("GRAFT_MEMORY_MB", text, 1);
        engine = make_engine("cpu");
        graft_model *m = load_model(engine, SD1);
        m->scale_factor = 1;
        h = of_checkpoint(other, 0.5);
        k = both_with(h);
        if (!plain && !try_run(&(run_of){.model = m, .positive = p, .negative = p}, got, &e))
            plain = mib;
        graft_status st = try_run(&(run_of){.model = m, .positive = k.p, .negative = n}, got, &e);
        CHECK(st == GRAFT_OK || st == GRAFT_E_LIMIT);
        if (!st) {
            enough = mib;
            CHECK(same(want, got));
            CHECK(packs_of(engine).bytes + graft_arenas_bytes(engine->arenas) <= (uint64_t)mib
                                                                                     << 20);
        }
        pair_finish(k);
        graft_hooks_release(h);
        graft_model_release(m);
        graft_engine_destroy(engine);
    }
    unsetenv("GRAFT_MEMORY_MB");
    engine = own;
    CHECK(plain > 0 && enough > 0 && enough <= plain + 1);
}

static void compiled_ahead(void)
{
    graft_engine *own = engine;
    graft_err e = GRAFT_ERR_INIT;
    graft_task ahead = {.compile_only = true};
    graft_hooks *h = switching(share_before(model, 3));
    pair k = both_with(h);
    float now[N], want[N];
    run(&(run_of){.model = model, .positive = k.p, .negative = n}, want);
    engine = make_engine("cpu");
    graft_model *fresh = load_model(engine, SD1), *d = with_deepcache(fresh, 2, 0, 1);
    fresh->scale_factor = d->scale_factor = 1;
    const graft_model *const models[] = {fresh, d};
    for (int i = 0; i < 2; i++) {
        run_of r = {.model = models[i], .positive = k.p, .negative = n, .task = &ahead};
        CHECK_OK(try_run(&r, now, &e), &e);
        const uint64_t built = graphs_built(engine), made = packs_of(engine).made;
        CHECK(built > 0 && made > 0);
        r.task = NULL;
        run(&r, now);
        CHECK_INT(graphs_built(engine), built);
        CHECK_INT(packs_of(engine).made, made);
        if (!i) CHECK(same(now, want));
    }
    pair_finish(k); /* what they keep is of this engine, too */
    graft_hooks_release(h);
    graft_model_release(fresh);
    graft_model_release(d);
    graft_engine_destroy(engine);
    engine = own;
}

/* ------------------------------------------------------------------ refusals */

static void expect_refusal(graft_status st, graft_status want, const graft_err *e,
                           const char *words)
{
    CHECK_INT(st, want);
    CHECK(strstr(e->text, words) != NULL);
    if (!strstr(e->text, words)) fprintf(stderr, "no \"%s\" in: %s\n", words, e->text);
}

static void refused(void)
{
    graft_err e = GRAFT_ERR_INIT;
    graft_hooks *h = NULL;
    float now[N];
    expect_refusal(graft_hooks_lora(NULL, "/nowhere.safetensors", 1, 1, NULL, &h, &e),
                   GRAFT_E_NOTFOUND, &e, "nowhere");
    expect_refusal(graft_hooks_lora(NULL, lora, NAN, 1, NULL, &h, &e), GRAFT_E_ARG, &e, "finite");
    /* A LoRA of nothing that the model has shows when it samples. */
    made_file *f = calloc(1, sizeof *f);
    add_lora_pair(f, "unet.nothing.of.it", 8, 8);
    const char *strange = temp_path("strange.safetensors");
    write_file(f, strange, NULL);
    h = and_lora(NULL, strange, 1);
    pair k = both_with(h);
    expect_refusal(try_run(&(run_of){.model = model, .positive = k.p, .negative = n}, now, &e),
                   GRAFT_E_ARG, &e, "strange.safetensors fits no layer");
    pair_finish(k);
    graft_hooks_release(h);
    unlink(strange);
    /* Another architecture. */
    h = of_checkpoint(SD2, 1);
    k = both_with(h);
    expect_refusal(try_run(&(run_of){.model = model, .positive = k.p, .negative = n}, now, &e),
                   GRAFT_E_ARG, &e, SD2 " has another architecture");
    pair_finish(k);
    graft_hooks_release(h);
    /* Too many. */
    h = NULL;
    for (int i = 0; i < GRAFT_HOOKS_MOST; i++) h = and_lora(h, lora, 0.1);
    graft_hooks *more = NULL;
    expect_refusal(graft_hooks_lora(h, lora, 1, 1, NULL, &more, &e), GRAFT_E_LIMIT, &e, "64");
    graft_hooks_release(h);
}

/* Keys that match nothing are told once, not for each strength. */
static int warnings;
static void count_warnings(void *ctx, int32_t level, const char *text)
{
    (void)ctx;
    warnings += level >= GRAFT_LOG_WARN && strstr(text, "matches nothing");
}

static void warned_once(void)
{
    graft_task task = {.log = {.line = count_warnings}};
    made_file *f = calloc(1, sizeof *f);
    const int64_t width = 32;
    float now[N];
    add_lora_pair(f, "unet.nothing.of.it", 8, 8);
    add_lora_pair(f, "unet.mid_block.attentions.0.transformer_blocks.0.attn1.to_q", width, width);
    const char *path = temp_path("half.safetensors");
    graft_safetensors *sd1 = open_file(SD1);
    const graft_st_tensor *t = graft_safetensors_find(
        sd1, "model.diffusion_model.middle_block.1.transformer_blocks.0.attn1.to_q.weight");
    CHECK(t != NULL);
    if (t && t->shape[0] != width) {
        finish_file(f);
        f = calloc(1, sizeof *f);
        add_lora_pair(f, "unet.nothing.of.it", 8, 8);
        add_lora_pair(f, "unet.mid_block.attentions.0.transformer_blocks.0.attn1.to_q", t->shape[0],
                      t->shape[1]);
    }
    graft_safetensors_close(sd1);
    write_file(f, path, NULL);
    const graft_keyframe list[] = {{0, 1}, {0.3, 0.5}, {0.6, 0.2}};
    graft_hooks *h = keyed(and_lora(NULL, path, 1), list, 3);
    pair k = both_with(h);
    warnings = 0;
    run(&(run_of){.model = model, .positive = k.p, .negative = k.n, .task = &task}, now);
    CHECK_INT(warnings, 1);
    pair_finish(k);
    graft_hooks_release(h);
    unlink(path);
}

/* ------------------------------------------------------------------ memory that ends */

/* All that is made for a run with hooks, and the run. */
static graft_status make_and_run(float *out, graft_err *e)
{
    const graft_keyframe list[] = {{0, 1}, {0.5, 0.5}};
    graft_hooks *h = NULL, *both_hooks = NULL, *keyframed = NULL;
    graft_keyframes *k = NULL;
    graft_cond *c = NULL, *all = NULL;
    graft_status st;
    GRAFT_TRY(graft_hooks_lora(NULL, lora, 0.5, 0, NULL, &h, e));
    GRAFT_TRY(graft_hooks_checkpoint(engine, h, other, 0.5, 0, NULL, &both_hooks, e));
    GRAFT_TRY(graft_keyframes_add(NULL, list, 2, &k, e));
    GRAFT_TRY(graft_hooks_schedule(both_hooks, k, &keyframed, e));
    GRAFT_TRY(graft_cond_hooks(p, keyframed, &c, e));
    GRAFT_TRY(graft_cond_default(c, n, h, &all, e));
    GRAFT_TRY(try_run(&(run_of){.model = model, .positive = all, .negative = n}, out, e));
out:
    graft_cond_release(c);
    graft_cond_release(all);
    graft_hooks_release(h);
    graft_hooks_release(both_hooks);
    graft_hooks_release(keyframed);
    graft_keyframes_release(k);
    return st;
}

/* Wherever it ends nothing is lost, and the next run is as the first. */
static void memory_ends(void)
{
    float want[N], got[N];
    graft_err e = GRAFT_ERR_INIT;
    graft_alloc_stats before, after;
    int64_t at = 1, left = 0;
    CHECK_OK(make_and_run(want, &e), &e);
    CHECK_OK(make_and_run(got, &e), &e);
    CHECK(same(want, got));
    graft_alloc_stats_get(&before);
    while (!left) {
        graft_alloc_fail_at(at);
        graft_status st = make_and_run(got, &e);
        left = graft_alloc_fail_at(0); /* 0: it came */
        CHECK(st == GRAFT_OK || st == GRAFT_E_NOMEM);
        at += at < 40 ? 1 : at / 6;
    }
    CHECK_OK(make_and_run(got, &e), &e);
    CHECK(same(want, got));
    graft_alloc_stats_get(&after);
    CHECK_INT(after.live_blocks, before.live_blocks);
}

int main(void)
{
    engine = make_engine("cpu");
    model = load_model(engine, SD1);
    model->scale_factor = 1; /* so that runs in parts hand latents on as they are */
    p = place_prompt(model, 1, TOKENS);
    n = place_prompt(model, 2, TOKENS);
    write_lora(lora, "lora.safetensors", parts, 2, 0.2f);
    make_variant(other, "other.safetensors", 0.3f, GRAFT_F32);
    RUN(swapped_weights);
    RUN(in_bf16);
    RUN(quantized);
    RUN(packed);
    RUN(checkpoints);
    RUN(controlnets);
    RUN(two_models);
    RUN(deepcache);
    RUN(easycache);
    RUN(limits_of_memory);
    RUN(memory_of_the_engine);
    RUN(compiled_ahead);
    RUN(refused);
    RUN(warned_once);
    RUN(memory_ends);
    graft_cond_release(p);
    graft_cond_release(n);
    graft_model_release(model);
    unlink(lora);
    unlink(other);
    graft_engine_destroy(engine);
    return test_end();
}
