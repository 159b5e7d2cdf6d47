/* Calls of the guided denoiser on a small latent, of which all is known. */
#ifndef GRAFT_TESTS_ENGINE_GUIDED_CALL_H
#define GRAFT_TESTS_ENGINE_GUIDED_CALL_H
#include "tests/engine/regions.h"

enum { H = 8, W = 12, N = 4 * H * W };

typedef struct call {
    const graft_model *model;
    const graft_cond *positive, *negative;
    graft_third third;
    double cfg;
    int calls;
    const float *mask, *latent, *noise;
} call;

static inline graft_status try_call(const call *c, float *out, graft_err *e)
{
    const one_call place = {c->model, NULL, NULL, 0, {1, 4, H, W}, NULL, NULL, 0};
    graft_sigma_table table;
    graft_guided *g = NULL;
    const graft_guided_config k = {.model = c->model,
                                   .table = &table,
                                   .positive = c->positive,
                                   .negative = c->negative,
                                   .third = c->third,
                                   .cfg = c->cfg,
                                   .shape = {1, 4, H, W},
                                   .steps = (size_t)c->calls,
                                   .first = SIGMA,
                                   .mask = c->mask,
                                   .latent = c->latent,
                                   .noise = c->noise};
    float x[N];
    noise_of(&place, x);
    graft_model_sigma_table(c->model, &table);
    graft_status st = graft_guided_create(&k, &g, e);
    if (st) return st;
    graft_denoiser d = graft_guided_denoiser(g);
    for (int i = 0; i < c->calls && !st; i++) {
        graft_guided_step(g, (size_t)i);
        st = d.denoise(d.ctx, x, SIGMA, out, e);
    }
    graft_guided_destroy(g);
    return st;
}

static inline void denoise_by(const call *c, float *out)
{
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(try_call(c, out, &e), &e);
}

/* What the model makes of one prompt. */
static inline void alone(const graft_model *m, const graft_cond *c, float *out)
{
    denoise_by(&(const call){.model = m, .positive = c, .negative = c, .cfg = 1, .calls = 1}, out);
}

/* Guidance by two prompts. */
static inline void two(const graft_model *m, const graft_cond *p, const graft_cond *n, double cfg,
                       float *out)
{
    denoise_by(&(const call){.model = m, .positive = p, .negative = n, .cfg = cfg, .calls = 1},
               out);
}
#endif
