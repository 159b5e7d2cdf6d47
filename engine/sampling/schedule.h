/* Sigmas: the noise schedules of Stable Diffusion and the schedulers that pick steps of them.
 *
 * sigma = sqrt((1 - alpha_bar) / alpha_bar) in the notation of Karras et al. 2022
 * (arXiv:2206.00364): a state is latent + sigma * noise. For the rectified flow of Stable Diffusion
 * 3 (arXiv:2403.03206) it is (1 - sigma) * latent + sigma * noise, sigma at most 1. Pure functions,
 * any thread. */
#ifndef GRAFT_SAMPLING_SCHEDULE_H
#define GRAFT_SAMPLING_SCHEDULE_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

#define GRAFT_SCHEDULE_STEPS 1000
#define GRAFT_SCHEDULE_MOST  10000
/* What a network is told of sigma. */
typedef enum graft_time {
    GRAFT_TIME_STEPS = 0, /* the number of a timestep it was trained at; of a flow, 1000 sigma */
    GRAFT_TIME_LOG = 1,   /* ln(sigma) / 4 (Karras et al. 2022, table 1, c_noise) */
    GRAFT_TIME_ANGLE = 2  /* atan(sigma) 2 / pi: 0 … 1 */
} graft_time;
typedef struct graft_sigma_table {
    graft_time time;
    int count;                        /* 1000, or fewer (LCM's distilled 50), or 10000 (FLUX's) */
    float sigma[GRAFT_SCHEDULE_MOST]; /* ascending */
    float log_sigma[GRAFT_SCHEDULE_MOST];
    int timestep_stride; /* 1; LCM: 20, its sigma i belongs to timestep 20 i + 19 */
    float shift;         /* of a flow; 0: none */
} graft_sigma_table;

/* Betas "linear" in sqrt from beta_start to beta_end, as SD's: (sqrt(b0)…sqrt(b1))^2. zsnr
 * rescales to zero terminal SNR (arXiv:2305.08891). lcm keeps 50 of the steps. */
void graft_sigma_table_init(graft_sigma_table *t, double beta_start, double beta_end, bool zsnr,
                            bool lcm);
/* A flow: sigma = shift t / (1 + (shift - 1) t) at t = 1/count … 1 (the paper's 5.3.2), shift > 0,
 * count at most GRAFT_SCHEDULE_MOST. FLUX calls the shift's logarithm mu. */
void graft_sigma_table_init_flow(graft_sigma_table *t, double shift, int count);
/* A network that is told any sigma: 1000 of them for schedulers that pick from a table, in equal
 * steps of log sigma. 0 < low < high; time is not GRAFT_TIME_STEPS. Shares of the schedule are
 * those of log sigma; timesteps are exact, both ways. */
void graft_sigma_table_init_continuous(graft_sigma_table *t, double low, double high,
                                       graft_time time);
/* The timestep whose log sigma is nearest; and its inverse, linear in log sigma between steps. Of a
 * flow: 1000 sigma, which is what its network is told; and the sigma of t = timestep / 1000, which
 * is what schedulers pick. So one is not the inverse of the other there, unless shift is 1. */
float graft_sigma_to_timestep(const graft_sigma_table *t, float sigma);
float graft_timestep_to_sigma(const graft_sigma_table *t, float timestep);
/* Share of the schedule (0: most noise … 1: none) to sigma, as conditioning ranges use it; all
 * noise is 1 for a flow, else above any sigma. */
float graft_percent_to_sigma(const graft_sigma_table *t, double percent);
/* Whether sigma lies between two such shares, both included. */
bool graft_sigma_in_range(const graft_sigma_table *t, double start, double end, float sigma);

/* NULL-terminated: simple, sgm_uniform, karras, exponential, ddim_uniform, beta, normal,
 * linear_quadratic, kl_optimal. */
const char *const *graft_schedule_names(void);
/* Sigmas for `steps` steps (at least 1) into out, descending, the last 0, rounded as ComfyUI's
 * float32 gives them. *count is their number: steps + 1, except that beta may give fewer and
 * ddim_uniform fewer or up to count of the table + 1. So room for max(steps, GRAFT_SCHEDULE_MOST)
 * + 2 is always enough; where `cap` is too small, GRAFT_E_LIMIT. */
graft_status graft_schedule_make(const graft_sigma_table *t, const char *scheduler, int steps,
                                 float *out, size_t cap, size_t *count, graft_err *e);

/* The same from the formulas themselves, without a model: `steps` sigmas (at least 1) and a 0 into
 * out[steps + 1], rounded as k-diffusion's float32 gives them. From `high` to `low`, or upwards
 * where high is less. What a formula cannot say comes out as infinity or NaN. */
/* Karras et al. 2022, eq. 5. */
void graft_schedule_karras(int steps, double high, double low, double rho, float *out);
/* Equal steps of log sigma. */
void graft_schedule_exponential(int steps, double high, double low, float *out);
/* log sigma falls as the power rho of a share that falls evenly; rho = 1 is exponential. */
void graft_schedule_polyexponential(int steps, double high, double low, double rho, float *out);
/* The variance-preserving SDE of Song et al. 2021 (arXiv:2011.13456), at times from 1 to eps_s. */
void graft_schedule_vp(int steps, double beta_d, double beta_min, double eps_s, float *out);
/* The Laplace schedule of "Improved Noise Schedule for Diffusion Training" (Hang et al. 2024,
 * arXiv:2407.03297): log sigma = mu - beta sgn(1/2 - t) ln(1 - 2 |1/2 - t|) at t = 0 … 1, the
 * quantiles of Laplace's distribution, no more than `high` and no less than `low`. The logarithm is
 * of 1e-5 more, as in ComfyUI, and no 0 follows: out[steps]. */
void graft_schedule_laplace(int steps, double high, double low, double mu, double beta, float *out);
/* The scheduler named beta with other numbers, both above 0, into out[steps + 1]; returns how many
 * sigmas it gives. */
size_t graft_schedule_beta(const graft_sigma_table *t, int steps, double alpha, double beta,
                           float *out);
/* "Align Your Steps" (Sabour et al. 2024, arXiv:2404.14507): from optimised levels (at least two,
 * above 0, descending) to any number of steps, by linear interpolation of log sigma; the last
 * becomes 0. As many steps as there are levels but one give these. */
void graft_schedule_aligned(const double *level, int levels, int steps, float *out);
/* FLUX.2's, for a picture of so many tokens, as its authors have it (diffusers'
 * compute_empirical_mu, public under Apache-2.0): equal steps of t from 1 to 0, sigma = m t / (1 +
 * (m - 1) t) with the logarithm of m linear in both numbers up to 4300 tokens, in the tokens alone
 * beyond. */
void graft_schedule_flux2(int steps, int64_t tokens, float *out);
/* Ideogram 4's: quantiles of a logit-normal distribution, the logistic function of mu + std times
 * the quantiles of the normal one at even shares, from the largest down to 0 at the end; the others
 * stay between logistic(-7.5) and logistic(9), which are ratios of signal to noise that its authors
 * end at. std > 0. */
void graft_schedule_ideogram4(int steps, double mu, double std, float *out);
#endif
