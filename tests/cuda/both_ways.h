/* Sampling runs on the fake driver both ways: with latents that stay on the device, and by the
 * host.
 */
#ifndef GRAFT_TESTS_CUDA_BOTH_WAYS_H
#define GRAFT_TESTS_CUDA_BOTH_WAYS_H
#include "base/alloc.h"
#include "engine/denoise/sample.h"
#include "tests/cuda/networks.h"

#if defined(__SANITIZE_ADDRESS__)
enum { SANITIZED = 1, MANY = 3 }; /* the emulator is ten times slower under it */
#else
enum { SANITIZED = 0, MANY = 5 };
#endif
enum { PLACE = 4, N = 4 * PLACE * PLACE, PICTURES = 2, WORDS = 3 };
enum { MOST = PICTURES * 16 * PLACE * PLACE }; /* values of a run's latents */

static inline graft_status look_on(void *ctx, const graft_guided_call *call, graft_err *e)
{
    (void)call, (void)e;
    ++*(int *)ctx;
    return GRAFT_OK;
}

static inline graft_cond *words(const graft_model *m, int64_t tokens)
{
    graft_cond *out = NULL;
    graft_err e = GRAFT_ERR_INIT;
    int64_t n = tokens * m->arch.context_dim;
    float *data = graft_malloc_array((size_t)n, sizeof *data);
    for (int64_t i = 0; i < n; i++) data[i] = fixed_value((uint64_t)(i + 1000 * tokens));
    CHECK_OK(graft_cond_create(tokens, m->arch.context_dim, data, 0, NULL, NULL, &out, &e), &e);
    return out;
}

/* What a run is made of, and what it begins with; latent NULL: one picture of zeros. */
typedef struct job {
    const graft_model *m;
    const graft_cond *positive, *negative;
    const graft_latent *latent;
    graft_sample_params p;
    graft_third third;
} job;

static inline job job_of(const graft_model *m, const graft_cond *positive,
                         const graft_cond *negative, const char *sampler, int64_t steps)
{
    return (job){.m = m,
                 .positive = positive,
                 .negative = negative,
                 .p = {.seed = 7,
                       .add_noise = true,
                       .steps = steps,
                       .cfg = 4.0,
                       .sampler = sampler,
                       .scheduler = "karras",
                       .denoise = 1.0,
                       .end_at_step = 10000}};
}

static inline size_t values_of_latent(const graft_latent *l, float *out)
{
    int64_t shape[4] = {0, 0, 0, 0};
    const float *data = l ? graft_latent_data(l, shape) : NULL;
    size_t n = (size_t)(shape[0] * shape[1] * shape[2] * shape[3]);
    CHECK(n > 0 && n <= MOST);
    if (data) memcpy(out, data, n * sizeof *out);
    return n;
}

/* tapped: someone looks on, so the latents come to the host. *n: values in `out`, and in
 * `denoised` where that is not NULL. */
static inline graft_status try_both(const job *j, const graft_task *task, bool tapped, float *out,
                                    float *denoised, size_t *n, graft_err *e)
{
    graft_latent *from = NULL, *to = NULL, *last = NULL;
    graft_sigmas *sigmas = NULL;
    int calls = 0;
    const graft_guided_tap tap = {&calls, look_on};
    graft_status st;
    GRAFT_TRY(graft_latent_empty(4, 8 * PLACE, 8 * PLACE, 1, &from, e));
    GRAFT_TRY(graft_sigmas_for_ksampler(j->m, &j->p, &sigmas, e));
    const graft_sampling s = {.model = j->m,
                              .positive = j->positive,
                              .negative = j->negative,
                              .third = j->third,
                              .cfg = j->p.cfg,
                              .sampler = j->p.sampler,
                              .sigmas = sigmas,
                              .add_noise = true,
                              .seed = j->p.seed};
    GRAFT_TRY(graft_sample_tapped(&s, j->latent ? j->latent : from, task, tapped ? &tap : NULL, &to,
                                  denoised ? &last : NULL, e));
    CHECK(!tapped || calls > 0);
    *n = values_of_latent(to, out);
    if (denoised) CHECK_INT(values_of_latent(last, denoised), *n);
out:
    graft_sigmas_release(sigmas);
    graft_latent_release(from);
    graft_latent_release(to);
    graft_latent_release(last);
    return st;
}

/* Returns the values. */
static inline size_t sample_both(const job *j, const graft_task *task, bool tapped, float *out,
                                 float *denoised)
{
    size_t n = 0;
    graft_err e = GRAFT_ERR_INIT;
    CHECK_OK(try_both(j, task, tapped, out, denoised, &n, &e), &e);
    return n;
}

static inline size_t sample(const job *j, const graft_task *task, bool tapped, float *out)
{
    return sample_both(j, task, tapped, out, NULL);
}

/* Both ways have the same bits; the device's brings nothing but the two results to the host, and
 * `more` bytes before its steps. */
static inline void both_ways_with(const job *j, uint64_t more)
{
    float host[MOST], device[MOST], host_last[MOST], last[MOST];
    int failures = test_failures;
    size_t n = sample_both(j, NULL, true, host, host_last);
    uint64_t before = fake->download_bytes;
    CHECK_INT(sample_both(j, NULL, false, device, last), n);
    CHECK_INT(fake->download_bytes - before, 2 * n * sizeof(float) + more);
    CHECK(memcmp(host, device, n * sizeof *host) == 0);
    CHECK(memcmp(host_last, last, n * sizeof *last) == 0);
    CHECK(host[0] == host[0]);
    if (test_failures != failures) fprintf(stderr, "  with %s\n", j->p.sampler);
}

static inline void both_ways(const job *j)
{
    both_ways_with(j, 0);
}

/* Whether the run gives another picture than a plain one. */
static inline bool differs(const job *j, const job *plain)
{
    float out[MOST], from[MOST];
    const size_t n = sample(j, NULL, false, out);
    return sample(plain, NULL, false, from) == n && memcmp(out, from, n * sizeof *out) != 0;
}

/* Two pictures with samples, and masks between 0 and 1 of their own. */
static inline graft_latent *masked_latent(int64_t channels)
{
    const int64_t shape[4] = {PICTURES, channels, PLACE, PLACE},
                  mask_shape[4] = {PICTURES, PLACE, PLACE, 1};
    float data[MOST], mask[PICTURES * PLACE * PLACE];
    graft_latent *plain = NULL, *out = NULL;
    graft_image *image = NULL;
    graft_err e = GRAFT_ERR_INIT;
    for (int i = 0; i < MOST; i++) data[i] = 3 * fixed_value((uint64_t)i);
    for (int i = 0; i < PICTURES * PLACE * PLACE; i++)
        mask[i] = fabsf(fixed_value((uint64_t)(i + 7000)));
    CHECK_OK(graft_latent_from_data(data, shape, &plain, &e), &e);
    CHECK_OK(graft_image_from_data(mask, mask_shape, true, &image, &e), &e);
    CHECK_OK(graft_latent_set_mask(plain, image, &out, &e), &e);
    graft_latent_release(plain);
    graft_image_release(image);
    return out;
}

/* A run that goes through has the bits that it has with enough; true where it did. */
static inline bool goes_well(const job *j, const float *want)
{
    float out[MOST];
    size_t n = 0;
    graft_err e = GRAFT_ERR_INIT;
    const graft_status st = try_both(j, NULL, false, out, NULL, &n, &e);
    CHECK(st == GRAFT_OK || st == GRAFT_E_NOMEM);
    if (st && st != GRAFT_E_NOMEM) fprintf(stderr, "  it says: %s\n", e.text);
    if (!st) CHECK(memcmp(out, want, n * sizeof *out) == 0);
    return st == GRAFT_OK;
}

/* The device's memory ends, or one of the host's allocations fails: the run is the host's, or says
 * so, and the next one is as before. */
static inline void with_little(const job *j)
{
    float want[MOST];
    int well = 0;
    for (int i = 0; i < 2; i++) sample(j, NULL, false, want);
    const int64_t live = fake->live_bytes;
    for (int64_t more = 64 << 10; more > 16; more /= SANITIZED ? 16 : 2) {
        fake->memory = live + more;
        well += goes_well(j, want);
        fake->memory = 0;
        CHECK(goes_well(j, want));
    }
    CHECK(well > 0);
    for (int64_t at = 1;; at += SANITIZED ? 29 : 5) {
        graft_alloc_fail_at(at);
        goes_well(j, want);
        if (graft_alloc_fail_at(0) != 0) break; /* fewer than that */
    }
    CHECK(goes_well(j, want));
    CHECK_INT(fake->live_bytes, live);
}
#endif
