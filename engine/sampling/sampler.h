/* Samplers: integrators of the probability-flow ODE or SDE from sigma[0] to sigma[n-1].
 *
 * Each has a file of its own in this folder, all of the same shape, listed in samplers.def. They
 * work on plain float arrays and call a denoiser, so that they can be tested without a model. */
#ifndef GRAFT_SAMPLING_SAMPLER_H
#define GRAFT_SAMPLING_SAMPLER_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "engine/sampling/noise.h"

/* D(x, sigma): the picture that the model believes in. n values each. */
typedef struct graft_denoiser {
    void *ctx;
    graft_status (*denoise)(void *ctx, const float *x, float sigma, float *out, graft_err *e);
} graft_denoiser;

typedef struct graft_sampler_run {
    const graft_denoiser *denoiser;
    const graft_noise_source *noise; /* for ancestral and SDE samplers */
    const float *sigmas;             /* n_sigmas, descending */
    size_t n_sigmas;
    float *x; /* in: start, already scaled to sigmas[0]; out: result */
    size_t n; /* values in x */
    size_t batch; /* pictures in x; adaptive samplers use it for their norms */
    float sigma_min, sigma_max; /* of the model's schedule */
    void *step_ctx;
    /* After step i (0-based) of `total`; x: the state, denoised: the last D. NULL: not wanted. */
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
/* Steps that `step` will count. With no sigmas or one: x stays as it is. */
graft_status graft_sampler_run_named(const char *name, graft_sampler_run *run, graft_err *e);
#endif
