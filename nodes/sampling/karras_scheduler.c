/* KarrasScheduler: sigmas by Karras et al. 2022 between given ends. */
#include "nodes/sampling/sigma_inputs.h"

enum { STEPS, SIGMA_MAX, SIGMA_MIN, RHO };
static const graft_input *const inputs[] = {
    [STEPS] = IN_SIGMA_STEPS(),
    [SIGMA_MAX] = IN_SIGMA_MAX(),
    [SIGMA_MIN] = IN_SIGMA_MIN(),
    [RHO] = IN_FLOAT("rho", 7.0, 0.0, 100.0, 0.01,
                     "How much denser the steps get towards the end. 7 is the authors' choice, 1 "
                     "makes all steps equal; 0 has no meaning.",
                     .flags = GRAFT_INPUT_EXACT),
    NULL};
static const graft_output *const outputs[] = {OUT_SIGMAS(), NULL};

static graft_status run(graft_call *c)
{
    graft_sigmas *sigmas = NULL;
    graft_status st =
        graft_sigmas_karras(graft_arg_i64(c, STEPS), graft_arg_f64(c, SIGMA_MAX),
                            graft_arg_f64(c, SIGMA_MIN), graft_arg_f64(c, RHO), &sigmas, &c->err);
    return st != GRAFT_OK ? st : graft_call_out_sigmas(c, 0, sigmas);
}

GRAFT_NODE(karras_scheduler, .id = "KarrasScheduler", .title = "KarrasScheduler",
           .category = "sampling/custom_sampling/schedulers",
           .description = "Sigmas that fall fast at first and slowly at the end, where fine detail "
                          "comes about.");
