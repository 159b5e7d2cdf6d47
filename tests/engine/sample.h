/* Sampling without a text encoder: conditioning made of numbers, and one call of graft_sample. */
#ifndef GRAFT_TESTS_ENGINE_SAMPLE_H
#define GRAFT_TESTS_ENGINE_SAMPLE_H
#include "base/alloc.h"
#include "tests/engine/fixture.h"

/* Conditioning as wide as the model wants. */
static inline graft_status sample_cond(const graft_model *m, graft_cond **out, graft_err *e)
{
    int64_t width = m->arch.context_dim, n = TOKENS * width;
    float *data = graft_malloc_array((size_t)n, sizeof *data);
    if (!data) return graft_fail_nomem(e, "conditioning");
    for (int64_t i = 0; i < n; i++) data[i] = (float)(i % 17) * 0.1f - 0.8f;
    return graft_cond_create(TOKENS, width, data, 0, NULL, NULL, out, e);
}

static inline graft_status sample_latent(const graft_model *m, const graft_cond *cond,
                                         const graft_latent *latent, const char *sampler,
                                         int64_t steps, const graft_task *task, graft_latent **out,
                                         graft_err *e)
{
    graft_sample_params p = {.seed = 7,
                             .add_noise = true,
                             .steps = steps,
                             .cfg = 4.0,
                             .sampler = sampler,
                             .scheduler = "normal",
                             .denoise = 1.0,
                             .end_at_step = 10000};
    return graft_sample(m, &p, cond, cond, latent, task, out, e);
}
#endif
