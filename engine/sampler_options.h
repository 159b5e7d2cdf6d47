/* What some samplers can be told: how much noise they add on the way, and how they step. A part of
 * engine.h, whose rules hold here. */
#ifndef GRAFT_SAMPLER_OPTIONS_H
#define GRAFT_SAMPLER_OPTIONS_H
#include <stdbool.h>
#include <stdint.h>

/* dpm_adaptive: how it finds the length of a step in log sigma. Its error is the root mean square
 * of what two orders differ by, over the larger of atol and rtol times the state's size at a place;
 * e[0], e[1] and e[2] are 1 over the errors of this step, and of the two that were taken last. The
 * next step is 1 + atan(f - 1) times as long, with f = e[0]^((p + i + d) / order) e[1]^(-(p + 2 d)
 * / order) e[2]^(d / order), order 1.5 where eta is above 0. The step is taken if that is at least
 * accept_safety, else tried anew (k-diffusion's PIDStepSizeController). */
typedef struct graft_adaptive_options {
    double rtol, atol;             /* at least 0, not both 0; 0.05, 0.0078 */
    double h_init;                 /* length of the first step, at least 0.000001; 0.05 */
    double pcoeff, icoeff, dcoeff; /* p, i, d: at least 0; 0, 1, 0 */
    double accept_safety;          /* below 1 + pi / 2; 0.81 */
} graft_adaptive_options;

/* sa_solver (SA-Solver, arXiv:2309.05019): eta is its tau, which holds for the steps that end
 * between two sigmas; it is 0 elsewhere. */
#define GRAFT_SA_ORDER 6
typedef struct graft_sa_options {
    double noise_from, noise_to; /* these sigmas, of the model; at 20 % and 80 % of its schedule */
    int predictor, corrector; /* their orders, 1 and 0 to GRAFT_SA_ORDER; 3, 4; 0: no corrector */
    bool pece;                /* a corrected state is evaluated, too */
    bool simple;              /* integrals of order 2 in the short form of the paper's appendix D */
} graft_sa_options;

typedef struct graft_sampler_options {
    bool given;     /* false: the usual ones, whatever the rest says */
    double eta;     /* share of what ancestral and SDE steps add; 1: as usual, 0: none */
    double s_noise; /* factor of that noise; 1 */
    double r;       /* dpmpp_sde: place of the middle of a step in log sigma, above 0; 0.5 */
    int64_t order;  /* lms: how many slopes it looks at, 1 to 4; er_sde: stages, 1 to 3;
                       dpm_adaptive: 2, or 3 for any other; 4 */
    bool reverse;   /* er_sde: as reverse-time SDE with that eta, which it does not look at else */
    graft_adaptive_options adaptive; /* dpm_adaptive, whose usual eta is 0 */
    graft_sa_options sa;
} graft_sampler_options;
#endif
