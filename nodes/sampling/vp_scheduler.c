/* VPScheduler: sigmas of a variance-preserving process. */
#include "nodes/sampling/sigma_inputs.h"

enum { STEPS, BETA_D, BETA_MIN, EPS_S };
static const graft_input *const inputs[] = {
    [STEPS] = IN_SIGMA_STEPS(),
    [BETA_D] = IN_FLOAT("beta_d", 19.9, 0.0, 5000.0, 0.01,
                        "How fast the process adds noise. With the default there is far more at "
                        "first than SD was trained on (about 150); 10.5 begins at about 14.",
                        .flags = GRAFT_INPUT_EXACT),
    [BETA_MIN] = IN_FLOAT("beta_min", 0.1, 0.0, 5000.0, 0.01,
                          "How fast it adds noise at its very start; raise it for larger sigmas in "
                          "the last steps.",
                          .flags = GRAFT_INPUT_EXACT),
    [EPS_S] = IN_FLOAT("eps_s", 0.001, 0.0, 1.0, 0.0001,
                       "Time of the last step, where 1 is that of the first. Lower ends at less "
                       "noise.",
                       .flags = GRAFT_INPUT_EXACT),
    NULL};
static const graft_output *const outputs[] = {OUT_SIGMAS(), NULL};

static graft_status run(graft_call *c)
{
    graft_sigmas *sigmas = NULL;
    graft_status st =
        graft_sigmas_vp(graft_arg_i64(c, STEPS), graft_arg_f64(c, BETA_D),
                        graft_arg_f64(c, BETA_MIN), graft_arg_f64(c, EPS_S), &sigmas, &c->err);
    return st != GRAFT_OK ? st : graft_call_out_sigmas(c, 0, sigmas);
}

GRAFT_NODE(vp_scheduler, .id = "VPScheduler", .title = "VPScheduler",
           .category = "sampling/custom_sampling/schedulers",
           .description = "Sigmas of the variance-preserving process that diffusion models are "
                          "derived from, evenly spaced in its time.");
