/* Samplers: integrators of the probability-flow ODE or SDE from sigma[0] to sigma[n-1].
 *
 * Each has a file of its own in samplers/, all of the same shape, listed in samplers.def. They work
 * on plain float arrays and call a denoiser, so that they can be tested without a model. */
#ifndef GRAFT_SAMPLING_SAMPLER_H
#define GRAFT_SAMPLING_SAMPLER_H
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

/* NULL-terminated, in ComfyUI's order; only what is implemented. */
const char *const *graft_sampler_list(void);
bool graft_sampler_known(const char *name);
/* The sampler draws noise from a Brownian path (dpmpp_sde and its kin), not plain noise. */
bool graft_sampler_is_sde(const char *name);
/* dpm_2, dpm_2_ancestral, uni_pc, uni_pc_bh2: ask the scheduler for one step more and drop the
 * second-last sigma. */
bool graft_sampler_discards_penultimate(const char *name);
/* The sampler needs denoise_pair: the *_cfg_pp samplers (arXiv:2406.08070). */
bool graft_sampler_needs_unconditional(const char *name);
/* The sampler takes states for latent + sigma * noise: it adds noise, or steps by the
 * unconditional prediction's. All others follow dx/dsigma = (x - D) / sigma, which holds for any
 * weight of the latent. eta: the number it was given, 0 where it was given none: dpm_adaptive adds
 * noise only where that is above 0. */
bool graft_sampler_assumes_scale(const char *name, double eta);
/* The sampler computes with sums of whole arrays only, so they may be anywhere. */
bool graft_sampler_anywhere(const char *name);
/* The sampler knows what to do with numbers. */
bool graft_sampler_takes_numbers(const char *name);
/* GRAFT_E_UNSUPPORTED for numbers of a sampler that takes none. With no sigmas or one: x stays as
 * it is. On failure x is somewhere on the way. A status from the denoiser or the noise (cancelled,
 * for example) ends the run and is returned. Values that are no numbers pass through. uni_pc with
 * one step gives x back, as ComfyUI does. */
graft_status graft_sampler_run_named(const char *name, graft_sampler_run *run, graft_err *e);
#endif
