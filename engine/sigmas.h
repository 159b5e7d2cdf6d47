/* Sigmas, how much noise is left before each step of a sampler and at the end: the part of
 * engine.h, whose rules hold here, that makes and changes lists of them. */
#ifndef GRAFT_SIGMAS_H
#define GRAFT_SIGMAS_H
#include "engine/types.h"

/* Sigmas: finite, at least 0, in any order, possibly none; between two neighbours is a step of the
 * sampler. What would hold anything else is GRAFT_E_ARG. */
#define GRAFT_SIGMAS_MAX 100001 /* in one list: more steps than anyone waits for */
graft_sigmas *graft_sigmas_retain(graft_sigmas *s);
void graft_sigmas_release(graft_sigmas *s);
/* Lives as long as the object; not NULL when *n is 0. */
const float *graft_sigmas_data(const graft_sigmas *s, size_t *n);
graft_status graft_sigmas_from_data(const float *values, size_t n, graft_sigmas **out,
                                    graft_err *e);
/* The numbers in a text, whatever is between them: digits with at most one point among or before
 * them, and a sign; "1e-3" is two. */
graft_status graft_sigmas_from_text(const char *text, graft_sigmas **out, graft_err *e);
/* Where a model's schedule is after so much of it, 0..1. Ranges of steps begin and end there, so 0
 * is a sigma that is above all (999999999.9; 1 of a flow) and 1 is 0; actual: those two are the
 * schedule's largest and smallest instead. */
graft_status graft_sigmas_at_percent(const graft_model *m, double percent, bool actual, double *out,
                                     graft_err *e);
/* The last steps + 1 sigmas of a scheduler's schedule of int(steps / denoise) steps, as ComfyUI's
 * BasicScheduler takes them; denoise 0: none. graft_sample() differs: where the sampler asks for
 * it, it drops the second-last sigma, and with denoise 1 it takes all that the scheduler gives. */
graft_status graft_sigmas_from_model(const graft_model *m, const char *scheduler, int64_t steps,
                                     double denoise, graft_sigmas **out, graft_err *e);
/* The model as one that was trained on any sigma between two, and is told it: ln(sigma) / 4, or
 * with `angle` atan(sigma) 2 / pi (engine/sampling/schedule.h). `kind`: "eps", "v_prediction", or
 * "edm", whose preconditioning (Karras et al. 2022, arXiv:2206.00364, table 1) has a sigma_data of
 * 0.5, that of the others is 1. GRAFT_E_UNSUPPORTED for other kinds, and for transformers;
 * GRAFT_E_ARG unless 0 < sigma_min < sigma_max. */
typedef struct graft_continuous_options {
    const char *kind;
    bool angle;
    double sigma_max, sigma_min;
} graft_continuous_options;
graft_status graft_model_sampling_continuous(const graft_model *m,
                                             const graft_continuous_options *options,
                                             graft_model **out, graft_err *e);
/* SD Turbo's: timesteps 999, 899, … 99 without the first 10 - int(10 denoise), `steps` of them at
 * most, then 0. */
graft_status graft_sigmas_turbo(const graft_model *m, int64_t steps, double denoise,
                                graft_sigmas **out, graft_err *e);
/* The scheduler named beta with any numbers above 0; equal sigmas stand once, so there may be fewer
 * than steps + 1. */
graft_status graft_sigmas_beta(const graft_model *m, int64_t steps, double alpha, double beta,
                               graft_sigmas **out, graft_err *e);
/* "Align Your Steps" (arXiv:2404.14507) for `kind` "SD1" or "SDXL", other kinds are
 * GRAFT_E_UNSUPPORTED: its authors' sigmas for ten steps, interpolated for others. denoise: the
 * last ones of them, as graft_sigmas_split_denoise() counts; 0: no sigmas. */
graft_status graft_sigmas_align_your_steps(const char *kind, int64_t steps, double denoise,
                                           graft_sigmas **out, graft_err *e);
/* Formulas without a model, see engine/sampling/schedule.h; steps + 1 sigmas, the last 0. */
graft_status graft_sigmas_karras(int64_t steps, double sigma_max, double sigma_min, double rho,
                                 graft_sigmas **out, graft_err *e);
graft_status graft_sigmas_exponential(int64_t steps, double sigma_max, double sigma_min,
                                      graft_sigmas **out, graft_err *e);
graft_status graft_sigmas_polyexponential(int64_t steps, double sigma_max, double sigma_min,
                                          double rho, graft_sigmas **out, graft_err *e);
graft_status graft_sigmas_vp(int64_t steps, double beta_d, double beta_min, double eps_s,
                             graft_sigmas **out, graft_err *e);
/* `steps` sigmas, of which the last is no 0. GRAFT_E_ARG where sigma_min is above sigma_max. */
graft_status graft_sigmas_laplace(int64_t steps, double sigma_max, double sigma_min, double mu,
                                  double beta, graft_sigmas **out, graft_err *e);
/* FLUX.2's, for a picture of width x height pixels; a token has 16x16 of them. GRAFT_E_ARG for less
 * than one. */
graft_status graft_sigmas_flux2(int64_t steps, int64_t width, int64_t height, graft_sigmas **out,
                                graft_err *e);
/* Ideogram 4's, for a picture of width x height pixels: quantiles of a logit-normal distribution of
 * this mean and deviation, of which the mean is of 512x512 pixels and grows by half the logarithm
 * of how many times as many there are. GRAFT_E_ARG for no pixels, for a mean that is not finite or
 * a deviation not between 0 and 1000. */
graft_status graft_sigmas_ideogram4(int64_t steps, int64_t width, int64_t height, double mu,
                                    double std, graft_sigmas **out, graft_err *e);
/* *high: the first `step` steps, *low: the others; the sigma between them is in both. A step beyond
 * the end: all, and none. */
graft_status graft_sigmas_split(const graft_sigmas *s, int64_t step, graft_sigmas **high,
                                graft_sigmas **low, graft_err *e);
/* The same where *low has that share of the steps; half a step is rounded to the even number. */
graft_status graft_sigmas_split_denoise(const graft_sigmas *s, double denoise, graft_sigmas **high,
                                        graft_sigmas **low, graft_err *e);
/* The last one first; a 0 that comes first becomes 0.0001. */
graft_status graft_sigmas_flip(const graft_sigmas *s, graft_sigmas **out, graft_err *e);
/* Another first sigma; none stay none. */
graft_status graft_sigmas_set_first(const graft_sigmas *s, double sigma, graft_sigmas **out,
                                    graft_err *e);
#endif
