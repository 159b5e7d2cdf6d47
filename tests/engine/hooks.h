/* What the tests of hooks share: LoRAs made up for the small UNet, prompts with hooks, and runs of
 * a sampler, whole or in parts. */
#ifndef GRAFT_TESTS_ENGINE_HOOKS_H
#define GRAFT_TESTS_ENGINE_HOOKS_H
#include "engine/objects/hooks.h"
#include "engine/sigmas.h"
#include "tests/engine/regions.h"

static graft_engine *engine;
enum { H = 8, W = 8, N = 4 * H * W, STEPS = 6 };

/* A LoRA of every linear layer of the UNet's transformers in `part`, by the names of SD 1.x. */
static inline void write_lora(char path[256], const char *name, const char *const *part, size_t n,
                              float scale)
{
    made_file *f = calloc(1, sizeof *f);
    graft_safetensors *unet = open_file(SD1);
    for (size_t i = 0; i < graft_safetensors_count(unet); i++) {
        const graft_st_tensor *t = graft_safetensors_at(unet, i);
        static const char prefix[] = "model.diffusion_model.";
        char stem[256], text[300];
        bool wanted = false;
        if (strncmp(t->name, prefix, strlen(prefix)) != 0 || t->rank != 2) continue;
        for (size_t k = 0; k < n; k++) wanted = wanted || strstr(t->name, part[k]);
        if (!wanted || !strstr(t->name, ".weight")) continue;
        const char *own = t->name + strlen(prefix);
        snprintf(stem, sizeof stem, "lora_unet_%.*s", (int)(strlen(own) - strlen(".weight")), own);
        for (char *c = stem; *c; c++)
            if (*c == '.') *c = '_';
        snprintf(text, sizeof text, "%s.lora_up.weight", stem);
        add_tensor(f, text, 2, (const int64_t[]){t->shape[0], 3}, NULL, scale);
        snprintf(text, sizeof text, "%s.lora_down.weight", stem);
        add_tensor(f, text, 2, (const int64_t[]){3, t->shape[1]}, NULL, scale);
    }
    CHECK(f->n > 4);
    snprintf(path, 256, "%s", temp_path(name));
    write_file(f, path, NULL);
    graft_safetensors_close(unet);
}

/* ------------------------------------------------------------------ hooks */

/* Lets go of `before`, which may be NULL. */
static inline graft_hooks *and_lora(graft_hooks *before, const char *path, double strength)
{
    graft_hooks *h = NULL;
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(graft_hooks_lora(before, path, strength, strength, NULL, &h, &e), &e);
    graft_hooks_release(before);
    return h;
}

/* Lets go of h. */
static inline graft_hooks *keyed(graft_hooks *h, const graft_keyframe *list, size_t n)
{
    graft_hooks *out = NULL;
    graft_keyframes *k = NULL;
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(graft_keyframes_add(NULL, list, n, &k, &e), &e);
    CHECK_OK(graft_hooks_schedule(h, k, &out, &e), &e);
    graft_keyframes_release(k);
    graft_hooks_release(h);
    return out;
}

/* Lets go of c. */
static inline graft_cond *hooked(graft_cond *c, const graft_hooks *h)
{
    graft_cond *out = NULL;
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(graft_cond_hooks(c, h, &out, &e), &e);
    graft_cond_release(c);
    return out;
}

static inline graft_model *loaded_with(const graft_model *m, const char *path, double strength)
{
    graft_model *out = NULL;
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(graft_lora_apply(m, NULL, path, strength, 0, NULL, &out, NULL, &e), &e);
    return out;
}

/* ------------------------------------------------------------------ runs */

typedef struct run_of {
    const graft_model *model;
    const graft_cond *positive, *negative;
    const char *sampler; /* NULL: euler */
    int64_t from, to;    /* steps; to 0: to the end */
    graft_task *task;
} run_of;

static inline graft_status try_part(const run_of *r, const float *in, float *out, graft_err *e)
{
    const graft_sample_params p = {.seed = 5,
                                   .add_noise = !r->from,
                                   .steps = STEPS,
                                   .cfg = 4,
                                   .sampler = r->sampler ? r->sampler : "euler",
                                   .scheduler = "normal",
                                   .denoise = 1,
                                   .start_at_step = r->from,
                                   .end_at_step = r->to ? r->to : 10000};
    graft_latent *from = NULL, *to = NULL;
    int64_t shape[4] = {1, 4, H, W};
    graft_status st = graft_latent_from_data(in, shape, &from, e);
    if (!st) st = graft_sample(r->model, &p, r->positive, r->negative, from, r->task, &to, e);
    if (!st) memcpy(out, graft_latent_data(to, shape), N * sizeof *out);
    graft_latent_release(from);
    graft_latent_release(to);
    return st;
}

static inline graft_status try_run(const run_of *r, float *out, graft_err *e)
{
    static const float zeros[N];
    return try_part(r, zeros, out, e);
}

static inline void run(const run_of *r, float *out)
{
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(try_run(r, out, &e), &e);
}

/* The first `at` steps as `a` says, the rest as `b` does. */
static inline void run_two(const run_of *a, const run_of *b, int64_t at, float *out)
{
    run_of first = *a, second = *b;
    float half[N];
    graft_err e = GRAFT_ERR_INIT;
    first.to = second.from = at;
    CHECK_OK(try_run(&first, half, &e), &e);
    CHECK_OK(try_part(&second, half, out, &e), &e);
}

static inline bool same(const float *a, const float *b)
{
    return memcmp(a, b, N * sizeof *a) == 0;
}

/* A share of the schedule that begins with step `at` of a run, and has not with the one before. */
static inline double share_before(const graft_model *m, int64_t at)
{
    graft_sigmas *s = NULL;
    graft_sigma_table t;
    graft_err e = GRAFT_ERR_INIT;
    size_t n;
    double share = 0;
    CHECK_OK(graft_sigmas_from_model(m, "normal", STEPS, 1, &s, &e), &e);
    const float *sigma = graft_sigmas_data(s, &n);
    graft_model_sigma_table(m, &t);
    const float middle = (sigma[at - 1] + sigma[at]) / 2;
    while (graft_percent_to_sigma(&t, share) > middle) share += 0.001;
    graft_sigmas_release(s);
    return share;
}
#endif
