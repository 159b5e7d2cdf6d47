/* PolyexponentialScheduler: the logarithm of sigma falls as a power. */
#include "nodes/sampling/sigma_inputs.h"

enum { STEPS, SIGMA_MAX, SIGMA_MIN, RHO };
static const graft_input *const inputs[] = {
    [STEPS] = IN_SIGMA_STEPS(),
    [SIGMA_MAX] = IN_SIGMA_MAX(),
    [SIGMA_MIN] = IN_SIGMA_MIN(),
    [RHO] = IN_FLOAT("rho", 1.0, 0.0, 100.0, 0.01,
                     "1 is ExponentialScheduler. Above 1 the noise falls faster at first and more "
                     "steps are left for low noise, below 1 for high noise.",
                     .flags = GRAFT_INPUT_EXACT),
    NULL};
static const graft_output *const outputs[] = {OUT_SIGMAS(), NULL};

static graft_status run(graft_call *c)
{
    graft_sigmas *sigmas = NULL;
    graft_status st = graft_sigmas_polyexponential(
        graft_arg_i64(c, STEPS), graft_arg_f64(c, SIGMA_MAX), graft_arg_f64(c, SIGMA_MIN),
        graft_arg_f64(c, RHO), &sigmas, &c->err);
    return st != GRAFT_OK ? st : graft_call_out_sigmas(c, 0, sigmas);
}

GRAFT_NODE(polyexponential_scheduler, .id = "PolyexponentialScheduler",
           .title = "PolyexponentialScheduler", .category = "sampling/custom_sampling/schedulers",
           .description = "ExponentialScheduler with one number that moves its steps towards high "
                          "or low noise.");
