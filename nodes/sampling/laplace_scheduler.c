/* LaplaceScheduler: sigmas that are dense in the middle. */
#include "nodes/sampling/sigma_inputs.h"

enum { STEPS, SIGMA_MAX, SIGMA_MIN, MU, BETA };
static const graft_input *const inputs[] = {
    [STEPS] = IN_SIGMA_STEPS(),
    [SIGMA_MAX] = IN_SIGMA_MAX(),
    [SIGMA_MIN] = IN_SIGMA_MIN(),
    [MU] =
        IN_FLOAT("mu", 0.0, -10.0, 10.0, 0.1, "Where most steps are: the logarithm of their sigma.",
                 .flags = GRAFT_INPUT_EXACT),
    [BETA] = IN_FLOAT("beta", 0.5, 0.0, 10.0, 0.1,
                      "How far the other steps are from there: more gives more steps to the ends.",
                      .flags = GRAFT_INPUT_EXACT),
    NULL};
static const graft_output *const outputs[] = {
    OUT("SIGMAS", "SIGMAS", "The noise that is left before each step. The last is sigma_min."),
    NULL};

static graft_status run(graft_call *c)
{
    graft_sigmas *sigmas = NULL;
    graft_status st = graft_sigmas_laplace(graft_arg_i64(c, STEPS), graft_arg_f64(c, SIGMA_MAX),
                                           graft_arg_f64(c, SIGMA_MIN), graft_arg_f64(c, MU),
                                           graft_arg_f64(c, BETA), &sigmas, &c->err);
    return st != GRAFT_OK ? st : graft_call_out_sigmas(c, 0, sigmas);
}

GRAFT_NODE(laplace_scheduler, .id = "LaplaceScheduler", .title = "LaplaceScheduler",
           .category = "sampling/custom_sampling/schedulers",
           .description =
               "Sigmas as the quantiles of a Laplace distribution (arXiv:2407.03297): "
               "most steps at medium noise, where a picture's contents are decided. They "
               "end at sigma_min and not at none.");
