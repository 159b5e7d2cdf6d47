/* What a sampler is run with: the model, sigmas, noise, numbers of its own, and where arrays lie.
 */
#ifndef GRAFT_SAMPLING_SAMPLER_RUN_H
#define GRAFT_SAMPLING_SAMPLER_RUN_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "engine/sampler_options.h"
#include "engine/sampling/noise.h"

/* D(x, sigma): the picture that the model believes in. n values each. */
typedef struct graft_denoiser {
    void *ctx;
    graft_status (*denoise)(void *ctx, const float *x, float sigma, float *out, graft_err *e);
    /* The same, and the prediction without the prompt (always computed, also where guidance does
     * not need it). NULL: the samplers that need it fail with GRAFT_E_UNSUPPORTED. */
    graft_status (*denoise_pair)(void *ctx, const float *x, float sigma, float *out,
                                 float *unconditional, graft_err *e);
} graft_denoiser;

/* Arrays that the sampler does not see into, on a device: it moves pointers to them and asks for
 * sums. */
typedef struct graft_arrays {
    void *ctx;
    float *(*alloc)(void *ctx, size_t n); /* NULL: out of memory */
    void (*free)(void *ctx, float *p);    /* NULL is fine */
    /* out[i] = factor[0] * in[0][i] + factor[1] * in[1][i] …, 1 to 4 terms, in double and rounded
     * once. out may be one of them. A failure shows where the result is asked for. */
    void (*mix)(void *ctx, float *out, size_t n, int count, const double *factor,
                const float *const *in);
    /* out = n values of the host, which may change when it returns: noise. */
    graft_status (*put)(void *ctx, float *out, const float *from, size_t n, graft_err *e);
} graft_arrays;

/* Numbers that a sampler would have otherwise; engine/sampler_options.h says what they mean. */
typedef struct graft_sampler_numbers {
    double eta, s_noise, r;
    int order;
    bool reverse;
    graft_adaptive_options adaptive;
    graft_sa_options sa; /* but for its sigmas: noise_from_sigma, noise_to_sigma of the run */
} graft_sampler_numbers;
#define GRAFT_LMS_ORDER 4 /* most slopes, and the usual number */

typedef struct graft_sampler_run {
    const graft_denoiser *denoiser;
    const graft_noise_source *noise; /* for ancestral and SDE samplers */
    const float *sigmas;             /* n_sigmas, descending */
    size_t n_sigmas;
    const graft_sampler_numbers *numbers; /* NULL: the usual ones */
    float *x;                             /* in: start, already scaled to sigmas[0]; out: result */
    size_t n;                             /* values in x */
    size_t batch;                         /* pictures in x */
    float sigma_min, sigma_max;           /* of the model's schedule */
    /* sa_solver adds noise between these sigmas (both 0: nowhere), which usually are at 0.2 and 0.8
     * of the model's schedule. */
    float noise_from_sigma, noise_to_sigma;
    /* Sigmas are s / (1 - s) for the s of a flow (schedule.h): ancestral steps go down as far as
     * they do in terms of s. */
    bool flow;
    /* NULL: x and all other arrays are the host's. Else the denoiser takes and x and the step get
     * arrays of this kind; only for samplers that graft_sampler_anywhere() names. */
    const graft_arrays *arrays;
    void *step_ctx;
    /* After step i (0-based) of `total`; x: the state, denoised: the step's first D. NULL: not
     * wanted. dpm_fast takes about a third of the steps; dpm_adaptive as many as it needs. */
    void (*step)(void *ctx, size_t i, size_t total, const float *x, const float *denoised);
} graft_sampler_run;
#endif
