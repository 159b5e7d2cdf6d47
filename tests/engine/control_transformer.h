/* Models of FLUX.1, Stable Diffusion 3 and Qwen-Image with ControlNets, and short sampling runs of
 * them. */
#ifndef GRAFT_TESTS_ENGINE_CONTROL_TRANSFORMER_H
#define GRAFT_TESTS_ENGINE_CONTROL_TRANSFORMER_H
#include "tests/engine/control.h"
#include "tests/engine/flux.h"
#include "tests/engine/sample.h"

#define FLUX   GRAFT_SOURCE_DIR "/golden/small/control_flux_union.safetensors"
#define SD3    GRAFT_SOURCE_DIR "/golden/small/control_mmdit.safetensors"
#define LARGE  GRAFT_SOURCE_DIR "/golden/small/control_mmdit_large.safetensors"
#define QWEN   GRAFT_SOURCE_DIR "/golden/small/control_qwen_image.safetensors"
#define NET(x) GRAFT_SOURCE_DIR "/golden/small/control/" x ".safetensors"
#define VAE_16 GRAFT_SOURCE_DIR "/golden/small/taesd_sd3.safetensors"
#define VAE_4  GRAFT_SOURCE_DIR "/golden/small/taesd_layers.safetensors"

enum { HIGH = 6, WIDE = 8, PIXELS = 8, ONE = 16 * HIGH * WIDE };

typedef struct pair {
    graft_cond *positive, *negative;
} pair;

/* A model with its ControlNets, and what it makes without them. */
typedef struct bench {
    graft_model *m;
    graft_controlnet *net, *other; /* other: NULL where there is one */
    pair plain;
    float bare[ONE], steered[ONE];
} bench;

static graft_engine *engine;
static graft_vae *vae;
static graft_image *hint;
static bench flux, sd3, large, qwen;

/* ------------------------------------------------------------------ sampling */

static inline graft_cond *words(const graft_model *m, uint64_t seed)
{
    const int64_t n = 5 * m->arch.context_dim;
    const int64_t pooled = m->arch.adm_channels - m->arch.flux.guidance;
    float *data = graft_malloc_array((size_t)n, sizeof *data);
    float *y = graft_malloc_array((size_t)pooled, sizeof *y);
    graft_cond *out = NULL;
    graft_err e = GRAFT_ERR_INIT;
    for (int64_t i = 0; i < n; i++) data[i] = fixed_value(seed * 1000003 + (uint64_t)i);
    for (int64_t i = 0; i < pooled; i++) y[i] = fixed_value(seed * 2000003 + (uint64_t)i);
    CHECK_OK(graft_cond_create(5, m->arch.context_dim, data, pooled, y, NULL, &out, &e), &e);
    return out;
}

static inline graft_control_options options(const graft_controlnet *net, double strength)
{
    return (graft_control_options){
        .net = net, .hint = hint, .vae = vae, .strength = strength, .end = 1};
}

static inline pair steer(pair p, graft_control_options o)
{
    pair out = {NULL, NULL};
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(graft_cond_control(p.positive, p.negative, &o, &out.positive, &out.negative, &e), &e);
    return out;
}

static inline void drop(pair p)
{
    graft_cond_release(p.positive);
    graft_cond_release(p.negative);
}

static inline graft_status try_sizes(const graft_model *m, pair p, int64_t n, int64_t high,
                                     int64_t wide, const graft_task *task, float *out, graft_err *e)
{
    const graft_sample_params params = {.seed = 5,
                                        .add_noise = true,
                                        .steps = 4,
                                        .cfg = 3.0,
                                        .sampler = "euler",
                                        .scheduler = "simple",
                                        .denoise = 1.0,
                                        .end_at_step = 10000};
    graft_latent *from = NULL, *to = NULL;
    int64_t shape[4];
    graft_status st = graft_latent_empty(16, wide * PIXELS, high * PIXELS, n, &from, e);
    if (!st) st = graft_sample(m, &params, p.positive, p.negative, from, task, &to, e);
    if (!st) {
        const float *data = graft_latent_data(to, shape);
        memcpy(out, data, (size_t)(n * 16 * high * wide) * sizeof *out);
    }
    graft_latent_release(from);
    graft_latent_release(to);
    return st;
}

static inline void sample(const graft_model *m, pair p, float *out)
{
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(try_sizes(m, p, 1, HIGH, WIDE, NULL, out, &e), &e);
}

static inline void steer_and_sample(const bench *b, graft_control_options o, float *out)
{
    pair p = steer(b->plain, o);
    sample(b->m, p, out);
    drop(p);
}

static inline void begin(bench *b, const char *model, const char *net, const char *other)
{
    b->m = load_model(engine, model);
    b->net = load_control(engine, net);
    if (other) b->other = load_control(engine, other);
    b->plain = (pair){words(b->m, 1), words(b->m, 2)};
    sample(b->m, b->plain, b->bare);
    steer_and_sample(b, options(b->net, 1), b->steered);
}

static inline void end(bench *b)
{
    drop(b->plain);
    graft_controlnet_release(b->net);
    graft_controlnet_release(b->other);
    graft_model_release(b->m);
}

static inline made_file *net_file(const char *path)
{
    graft_safetensors *f = open_file(path);
    made_file *m = copy_file(f, "");
    graft_safetensors_close(f);
    return m;
}

/* ------------------------------------------------------------------ parts of pictures */

/* A VAE of which each cell of the latent sees its own pixels only. */
static inline graft_vae *local_vae(void)
{
    const char *path = temp_path("local.safetensors");
    made_file *f = net_file(VAE_16);
    graft_vae *v = NULL;
    graft_err e = GRAFT_ERR_INIT;
    for (size_t i = 0; i < f->n; i++) {
        const graft_st_tensor *t = &f->tensor[i];
        float *data = (float *)(uintptr_t)t->data;
        if (t->rank != 4 || t->shape[2] != 3) continue;
        for (int64_t k = 0; k < shape_count(t->shape, 4); k++) data[k] *= k % 9 == 4 ? 3.0f : 0.0f;
    }
    write_file(f, path, NULL);
    CHECK_OK(graft_vae_load(engine, path, NULL, &v, &e), &e);
    unlink(path);
    return v;
}

static inline graft_image *cut(const graft_image *from, int64_t y, int64_t x, int64_t side)
{
    int64_t shape[4];
    const float *v = graft_image_data(from, shape);
    float *part = graft_malloc_array((size_t)(side * side * 3), sizeof *part);
    graft_image *out = NULL;
    graft_err e = GRAFT_ERR_INIT;
    for (int64_t r = 0; r < side; r++)
        memcpy(part + r * side * 3, v + ((y + r) * shape[2] + x) * 3,
               (size_t)(side * 3) * sizeof *v);
    CHECK_OK(graft_image_from_data(part, (int64_t[]){1, side, side, 3}, false, &out, &e), &e);
    graft_free(part);
    return out;
}

/* ------------------------------------------------------------------ all */

static inline void begin_all(void)
{
    graft_err e = GRAFT_ERR_INIT;
    engine = make_engine("cpu");
    hint = control_hint(1, 64, 1);
    CHECK_OK(graft_vae_load(engine, VAE_16, NULL, &vae, &e), &e);
    begin(&flux, FLUX, NET("flux_union"), NET("flux"));
    begin(&sd3, SD3, NET("mmdit"), NULL);
    begin(&large, LARGE, NET("mmdit_large"), NULL);
    begin(&qwen, QWEN, NET("qwen_image"), NULL);
}

static inline void end_all(void)
{
    end(&flux);
    end(&sd3);
    end(&large);
    end(&qwen);
    graft_vae_release(vae);
    graft_image_release(hint);
    graft_engine_destroy(engine);
}
#endif
