/* Sampling by a flow with small models, for tests that take the same steps by hand. */
#ifndef GRAFT_TESTS_ENGINE_FLOW_RUN_H
#define GRAFT_TESTS_ENGINE_FLOW_RUN_H
#include "base/alloc.h"
#include "engine/denoise/sample.h"
#include "engine/image/latent.h"
#include "engine/models/encoders/anima_adapter.h"
#include "tests/engine/fixture.h"

enum { STEPS = 3 };

/* What Anima is told of so many of T5's words, which `seed` chooses; a third does not weigh 1. */
static inline void fill_words(const graft_model *m, uint64_t seed, int words,
                              float told[GRAFT_ANIMA_TOLD])
{
    memset(told, 0, GRAFT_ANIMA_TOLD * sizeof *told);
    for (int i = 0; i < words; i++) {
        told[i] = (float)((seed + 7 * (uint64_t)i) % (uint64_t)m->arch.anima.words);
        told[GRAFT_ANIMA_WORDS + i] = i % 3 ? 1 : 1.5f;
    }
    told[2 * GRAFT_ANIMA_WORDS] = (float)words;
}

/* A prompt of so many words, whose values begin at `seed` of fixed_value(); for Anima with one more
 * of T5's, for FLUX.1 with CLIP's vector, whose values begin at 40000. */
static inline graft_cond *prompt_of(const graft_model *m, uint64_t seed, int words)
{
    const int64_t n = words * m->arch.context_dim;
    float *data = graft_malloc_array((size_t)n, sizeof *data);
    graft_cond *c = NULL;
    graft_err e = GRAFT_ERR_INIT;
    for (int64_t i = 0; i < n; i++) data[i] = fixed_value(seed + (uint64_t)i);
    const bool worded = m->arch.kind == GRAFT_NET_ANIMA;
    const int64_t pooled = worded                              ? GRAFT_ANIMA_TOLD
                           : m->arch.kind == GRAFT_NET_FLUX    ? m->arch.flux.pooled_dim
                           : m->arch.kind == GRAFT_NET_HIDREAM ? m->arch.hidream.pooled_dim
                                                               : 0;
    float *told = pooled ? graft_malloc_array((size_t)pooled, sizeof *told) : NULL;
    if (worded) fill_words(m, seed, words + 1, told);
    for (int64_t i = 0; !worded && i < pooled; i++) told[i] = fixed_value(40000 + (uint64_t)i);
    CHECK_OK(graft_cond_create(words, m->arch.context_dim, data, pooled, told, NULL, &c, &e), &e);
    c->entry[0]->worded = worded;
    return c;
}

/* Steps of Euler from zeros, without noise; `out` has the last picture's channels of SIDE x SIDE.
 */
static inline void sampled_in(int64_t steps, const graft_model *m, const graft_cond *positive,
                              const graft_cond *negative, double cfg, int64_t pictures, float *out)
{
    const graft_sample_params p = {.steps = steps,
                                   .cfg = cfg,
                                   .sampler = "euler",
                                   .scheduler = "simple",
                                   .denoise = 1,
                                   .end_at_step = 10000};
    graft_err e = GRAFT_ERR_INIT;
    graft_latent *in = NULL, *l = NULL;
    int64_t shape[4] = {pictures, m->arch.latent_channels, SIDE, SIDE};
    const size_t n = (size_t)shape[1] * SIDE * SIDE;
    CHECK_OK(graft_latent_create(shape, &in, &e), &e);
    if (in) memset(graft_latent_writable(in), 0, (size_t)pictures * n * sizeof *out);
    CHECK_OK(graft_sample(m, &p, positive, negative, in, NULL, &l, &e), &e);
    if (l) memcpy(out, graft_latent_data(l, shape) + (size_t)(pictures - 1) * n, n * sizeof *out);
    graft_latent_release(in);
    graft_latent_release(l);
}

/* One picture in STEPS. */
static inline void sampled(const graft_model *m, const graft_cond *positive,
                           const graft_cond *negative, double cfg, float *out)
{
    sampled_in(STEPS, m, positive, negative, cfg, 1, out);
}

#endif
