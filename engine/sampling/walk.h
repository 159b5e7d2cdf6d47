/* What the samplers share: the run that they walk along, its buffers, and sums of latents.
 *
 * Scalars are computed in double from the float32 sigmas, latents are float32 and every sum of them
 * is rounded once. In formulas, x is the state, d the denoised latent (D), s and t the sigma before
 * and after the step; lambda = -log sigma. */
#ifndef GRAFT_SAMPLING_WALK_H
#define GRAFT_SAMPLING_WALK_H
#include "base/error.h"
#include "engine/sampling/sampler_run.h"

#define GRAFT_WALK_BUFFERS 8

/* Bits of `variant`. */
enum {
    GRAFT_ANCESTRAL = 1,
    GRAFT_CFG_PP = 2,
    GRAFT_HEUN = 4,
    GRAFT_VARIABLE_STEP = 8,
    GRAFT_PECE = 16,
    GRAFT_BH2 = 32,
};

typedef struct graft_walk {
    const graft_sampler_run *run;
    const graft_sampler_numbers *numbers; /* never NULL */
    int variant;
    const float *sigma; /* steps + 1 */
    size_t steps;       /* at least 1 */
    float *x;
    size_t n;
    float *buf[GRAFT_WALK_BUFFERS]; /* as many as samplers.def says; the sampler may swap them */
    float *drawn; /* noise in the host's memory, where the other arrays are elsewhere */
} graft_walk;

/* Every sampler: moves w->x to the last sigma. */
typedef graft_status graft_sample_fn(graft_walk *w, graft_err *e);

graft_status graft_walk_denoise(const graft_walk *w, const float *x, double sigma, float *out,
                                graft_err *e);
graft_status graft_walk_denoise_pair(const graft_walk *w, const float *x, double sigma, float *out,
                                     float *unconditional, graft_err *e);
/* Draws the noise of a step into `out`. */
graft_status graft_walk_noise(const graft_walk *w, double sigma, double sigma_next, float *out,
                              graft_err *e);
/* x += amount * noise; `scratch` receives the noise. */
graft_status graft_walk_add_noise(const graft_walk *w, double sigma, double sigma_next,
                                  double amount, float *scratch, graft_err *e);
void graft_walk_report(const graft_walk *w, size_t step, const float *denoised);
void graft_walk_copy(const graft_walk *w, float *out, const float *from);
/* w->x = from. */
void graft_walk_land(const graft_walk *w, const float *from);

/* out = a*x (+ b*y (+ c*z (+ d*v))), element by element of arrays of the run; out may be any of the
 * inputs. */
void graft_mix1(const graft_walk *w, float *out, double a, const float *x);
void graft_mix2(const graft_walk *w, float *out, double a, const float *x, double b,
                const float *y);
void graft_mix3(const graft_walk *w, float *out, double a, const float *x, double b, const float *y,
                double c, const float *z);
void graft_mix4(const graft_walk *w, float *out, double a, const float *x, double b, const float *y,
                double c, const float *z, double d, const float *v);

/* The sigma to step down to, and the amount of noise to add, so that the sum has sigma `to`; eta:
 * the share of the noise of an ancestral step that is added, 1 for all of it. */
void graft_ancestral_step_of(double from, double to, double eta, double *down, double *up);
/* With eta = 1. */
void graft_ancestral_step(double from, double to, double *down, double *up);
/* The step of k-diffusion's ancestral samplers: the same, but for a flow one that in terms of its
 * own sigmas goes down to t (1 + (t / s - 1) eta). */
void graft_walk_ancestral_step(const graft_walk *w, double from, double to, double eta,
                               double *down, double *up);
/* Exchanges two buffers. */
void graft_swap(float **a, float **b);

/* Leaves a sampler on failure: buffers belong to the run, so there is nothing to undo. */
#define GRAFT_WALK(expr)                                                                           \
    do {                                                                                           \
        graft_status walk_status = (expr);                                                         \
        if (walk_status != GRAFT_OK) return walk_status;                                           \
    } while (0)

#define SAMPLER(name, function, variant, buffers, flags) graft_sample_fn graft_sample_##function;
#include "engine/sampling/samplers.def"
#undef SAMPLER
#endif
