/* One call of the guided denoiser with prompts that are placed in the picture: what the tests of
 * areas and masks share. */
#ifndef GRAFT_TESTS_ENGINE_REGIONS_H
#define GRAFT_TESTS_ENGINE_REGIONS_H
#include <math.h>

#include "base/alloc.h"
#include "engine/denoise/denoise.h"
#include "engine/denoise/sample.h"
#include "tests/engine/fixture.h"

enum { MOST = 3 * 4 * 24 * 24 }; /* values of the largest latent here */
#define SIGMA 3.0f

/* A prompt of numbers that fit the model; SDXL's sizes are its own, so that a part of a latent and
 * a latent of that size get the same ones. */
static inline graft_cond *place_prompt(const graft_model *m, uint64_t seed, int64_t tokens)
{
    static const graft_sdxl_size size = {64, 64, 0, 0, 64, 64};
    int64_t n = tokens * m->arch.context_dim;
    float *data = graft_malloc_array((size_t)n, sizeof *data);
    graft_cond *out = NULL;
    graft_err e = GRAFT_ERR_INIT;
    for (int64_t i = 0; i < n; i++) data[i] = fixed_value(seed * 1000003 + (uint64_t)i);
    CHECK_OK(graft_cond_create(tokens, m->arch.context_dim, data, 0, NULL, &size, &out, &e), &e);
    return out;
}

/* Each of these lets go of what it is given. */
static inline graft_cond *in_area(graft_cond *c, graft_area a, double strength)
{
    graft_cond *out = NULL;
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(graft_cond_area(c, &a, strength, &out, &e), &e);
    graft_cond_release(c);
    return out;
}

/* In cells of the latent. */
static inline graft_cond *in_cells(graft_cond *c, int y, int x, int height, int width,
                                   double strength)
{
    return in_area(c, (graft_area){8.0 * x, 8.0 * y, 8.0 * width, 8.0 * height, false}, strength);
}

static inline graft_cond *with_strength(graft_cond *c, double strength)
{
    graft_cond *out = NULL;
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(graft_cond_strength(c, strength, &out, &e), &e);
    graft_cond_release(c);
    return out;
}

static inline graft_cond *masked(graft_cond *c, graft_image *mask, double strength, bool bounds)
{
    graft_cond *out = NULL;
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(graft_cond_mask(c, mask, strength, bounds, &out, &e), &e);
    graft_cond_release(c);
    return out;
}

static inline graft_cond *both(graft_cond *a, graft_cond *b)
{
    graft_cond *out = NULL;
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(graft_cond_combine(a, b, &out, &e), &e);
    graft_cond_release(a);
    graft_cond_release(b);
    return out;
}

static inline graft_image *mask_of(const float *v, int64_t n, int64_t h, int64_t w)
{
    graft_image *out = NULL;
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(graft_image_from_data(v, (int64_t[]){n, h, w, 1}, true, &out, &e), &e);
    return out;
}

/* 1 in the columns [from, to) of a mask as large as the latent, 0 elsewhere. */
static inline graft_image *columns(int64_t h, int64_t w, int64_t from, int64_t to)
{
    float v[24 * 24];
    for (int64_t i = 0; i < h * w; i++) v[i] = i % w >= from && i % w < to ? 1.0f : 0.0f;
    return mask_of(v, 1, h, w);
}

/* One call of a run; all borrowed. */
typedef struct one_call {
    const graft_model *model;
    const graft_cond *positive, *negative;
    double cfg;
    int64_t shape[4];
    const graft_guided_tap *tap;
    graft_task *task;
    int calls; /* at the same place; 0: one */
} one_call;

static inline size_t call_values(const one_call *c)
{
    return (size_t)(c->shape[0] * c->shape[1] * c->shape[2] * c->shape[3]);
}

static inline void noise_of(const one_call *c, float *x)
{
    for (size_t i = 0; i < call_values(c); i++) x[i] = 3 * fixed_value(4711 + i);
}

/* D at the state x; the last of the calls. */
static inline graft_status try_denoise_at(const one_call *c, const float *x, float sigma,
                                          float *out, graft_err *e)
{
    graft_sigma_table table;
    graft_guided *g = NULL;
    graft_guided_config k = {.model = c->model,
                             .table = &table,
                             .positive = c->positive,
                             .negative = c->negative,
                             .cfg = c->cfg,
                             .steps = (size_t)(c->calls ? c->calls : 1),
                             .task = c->task,
                             .tap = c->tap};
    memcpy(k.shape, c->shape, sizeof k.shape);
    graft_model_sigma_table(c->model, &table);
    graft_status st = graft_guided_create(&k, &g, e);
    if (st) return st;
    graft_denoiser d = graft_guided_denoiser(g);
    for (size_t i = 0; i < k.steps && !st; i++) {
        graft_guided_step(g, i);
        st = d.denoise(d.ctx, x, sigma, out, e);
    }
    graft_guided_destroy(g);
    return st;
}

static inline graft_status try_denoise(const one_call *c, const float *x, float *out, graft_err *e)
{
    return try_denoise_at(c, x, SIGMA, out, e);
}

static inline void denoise(const one_call *c, float *out)
{
    float x[MOST];
    graft_err e = GRAFT_ERR_INIT;
    CHECK(call_values(c) <= MOST);
    noise_of(c, x);
    CHECK_OK(try_denoise(c, x, out, &e), &e);
}

/* The part [y, y + h) x [x, x + w) of v, which has the call's shape. */
static inline void part_of(const one_call *c, const float *v, int64_t y, int64_t x, int64_t h,
                           int64_t w, float *out)
{
    for (int64_t p = 0; p < c->shape[0] * c->shape[1]; p++)
        for (int64_t r = 0; r < h; r++)
            memcpy(out + (p * h + r) * w, v + (p * c->shape[2] + y + r) * c->shape[3] + x,
                   (size_t)w * sizeof *v);
}
#endif
