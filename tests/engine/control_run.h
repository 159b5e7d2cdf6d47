/* A model, a ControlNet for it, and sampling with prompts that it steers: what the tests of
 * ControlNets share. */
#ifndef GRAFT_TESTS_ENGINE_CONTROL_RUN_H
#define GRAFT_TESTS_ENGINE_CONTROL_RUN_H
#include "tests/engine/control.h"
#include "tests/engine/sample.h"

static graft_engine *engine;
static graft_model *model;
static graft_controlnet *net, *silent;
static graft_image *hint;
static graft_cond *positive, *negative;

enum { SMALL = 4 * 8 * 8 };

/* ------------------------------------------------------------------ sampling */

static inline graft_cond *prompt(const graft_model *m, uint64_t seed)
{
    int64_t n = TOKENS * m->arch.context_dim;
    float *data = graft_malloc_array((size_t)n, sizeof *data);
    graft_cond *out = NULL;
    graft_err e = GRAFT_ERR_INIT;
    for (int64_t i = 0; i < n; i++) data[i] = fixed_value(seed * 1000003 + (uint64_t)i);
    CHECK_OK(graft_cond_create(TOKENS, m->arch.context_dim, data, 0, NULL, NULL, &out, &e), &e);
    return out;
}

static inline graft_control_options options(double strength)
{
    return (graft_control_options){.net = net, .hint = hint, .strength = strength, .end = 1};
}

/* Both prompts, steered; to be released. */
typedef struct pair {
    graft_cond *positive, *negative;
} pair;

static inline pair steer(pair p, const graft_control_options *o)
{
    pair out = {NULL, NULL};
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(graft_cond_control(p.positive, p.negative, o, &out.positive, &out.negative, &e), &e);
    return out;
}

static inline pair steered(const graft_control_options *o)
{
    return steer((pair){positive, negative}, o);
}

static inline void drop(pair p)
{
    graft_cond_release(p.positive);
    graft_cond_release(p.negative);
}

/* Calibrating on such prompts; every layer is to become integers. */
static inline graft_quantize_options quantizing(pair p, const graft_latent *latent)
{
    return (graft_quantize_options){.bits = 8,
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
}

typedef struct sampling {
    int64_t batch, steps;
    double cfg;
    const char *sampler;
    graft_task *task;
} sampling;

static inline graft_status try_sample(const graft_model *m, pair p, const sampling *s, float *out,
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
    graft_status st = graft_latent_empty(4, 64, 64, s->batch, &from, e);
    if (!st) st = graft_sample(m, &params, p.positive, p.negative, from, s->task, &to, e);
    if (!st) {
        const float *data = graft_latent_data(to, shape);
        memcpy(out, data, (size_t)s->batch * SMALL * sizeof *out);
    }
    graft_latent_release(from);
    graft_latent_release(to);
    return st;
}

static inline void sample(const graft_model *m, pair p, const sampling *s, float *out)
{
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(try_sample(m, p, s, out, &e), &e);
}

static const sampling usual = {1, 4, 4.0, "euler", NULL};
static float plain[SMALL], with[SMALL];

/* What sampling gives with these prompts. */
static inline void run(pair p, float *out)
{
    sample(model, p, &usual, out);
}

static inline void steer_and_run(const graft_control_options *o, float *out)
{
    pair p = steered(o);
    run(p, out);
    drop(p);
}

/* ------------------------------------------------------------------ files that do not fit */

/* f stays. */
static inline graft_status try_again(const made_file *f, const char *config, graft_err *e)
{
    const char *path = temp_path("broken.safetensors");
    graft_controlnet *n = NULL;
    write_again(f, path, config);
    graft_status st = graft_controlnet_load(engine, path, NULL, &n, e);
    graft_controlnet_release(n);
    unlink(path);
    return st;
}

static inline graft_status try_load(made_file *f, const char *config, graft_err *e)
{
    graft_status st = try_again(f, config, e);
    finish_file(f);
    return st;
}

static inline void remove_tensor(made_file *f, const char *name)
{
    graft_st_tensor *t = made_find(f, name), gone = *t;
    *t = f->tensor[--f->n];
    free((char *)gone.name);
    free((void *)gone.data);
}

static inline void expect_refusal(made_file *f, graft_status want, const char *text)
{
    graft_err e = GRAFT_ERR_INIT;
    CHECK_INT(try_load(f, control_config(model), &e), want);
    if (!strstr(e.text, text)) CHECK_STR(e.text, text);
}

/* ------------------------------------------------------------------ without memory */

/* Loads a file, and samples two steps with what is in it, twice in a chain. */
static inline graft_status load_and_sample(const char *path, int64_t steps, graft_err *e)
{
    graft_controlnet *n = NULL;
    graft_control_options o = options(0.5);
    pair p = {NULL, NULL}, q = {NULL, NULL};
    sampling s = usual;
    float now[SMALL];
    s.steps = steps;
    graft_status st = graft_controlnet_load(engine, path, NULL, &n, e);
    if (st || !steps) {
        graft_controlnet_release(n);
        return st;
    }
    o.net = n;
    st = graft_cond_control(positive, negative, &o, &p.positive, &p.negative, e);
    if (!st) st = graft_cond_control(p.positive, p.negative, &o, &q.positive, &q.negative, e);
    if (!st) st = try_sample(model, q, &s, now, e);
    drop(p);
    drop(q);
    graft_controlnet_release(n);
    return st;
}

/* Lets every stride-th allocation of that fail, once each: it says so, or does without. What is
 * lost then the leak checker sees. */
static inline void without_memory(const char *path, int64_t steps, int64_t stride)
{
    graft_alloc_stats before, after;
    graft_status st = GRAFT_OK;
    int64_t refused = 0;
    for (int64_t n = 1;; n += stride) {
        graft_err e = GRAFT_ERR_INIT;
        graft_alloc_stats_get(&before);
        graft_alloc_fail_at(n);
        st = load_and_sample(path, steps, &e);
        graft_alloc_fail_at(0);
        graft_alloc_stats_get(&after);
        CHECK(!st || (st == GRAFT_E_NOMEM && e.text[0]));
        refused += st != GRAFT_OK;
        if (!st && after.total_blocks - before.total_blocks < n) break;
    }
    CHECK(refused > 0);
}

static inline void control_begin(void)
{
    engine = make_engine("cpu");
    model = load_model(engine, SD1);
    net = made_control(model, 1);
    silent = made_control(model, 0);
    hint = control_hint(1, 64, 1);
    positive = prompt(model, 1);
    negative = prompt(model, 2);
    run((pair){positive, negative}, plain);
    const graft_control_options o = options(1);
    steer_and_run(&o, with);
}

static inline void control_end(void)
{
    graft_cond_release(positive);
    graft_cond_release(negative);
    graft_image_release(hint);
    graft_controlnet_release(net);
    graft_controlnet_release(silent);
    graft_model_release(model);
    graft_engine_destroy(engine);
}
#endif
