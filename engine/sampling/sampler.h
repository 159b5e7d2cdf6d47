/* Samplers: integrators of the probability-flow ODE or SDE from sigma[0] to sigma[n-1].
 *
 * Each has a file of its own in samplers/, all of the same shape, listed in samplers.def. They work
 * on plain float arrays and call a denoiser, so that they can be tested without a model. */
#ifndef GRAFT_SAMPLING_SAMPLER_H
#define GRAFT_SAMPLING_SAMPLER_H
#include <stdbool.h>

#include "engine/sampling/sampler_run.h"

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
