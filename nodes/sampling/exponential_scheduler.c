/* ExponentialScheduler: sigmas at equal ratios. */
#include "nodes/sampling/sigma_inputs.h"

enum { STEPS, SIGMA_MAX, SIGMA_MIN };
static const graft_input *const inputs[] = {
    [STEPS] = IN_SIGMA_STEPS(), [SIGMA_MAX] = IN_SIGMA_MAX(), [SIGMA_MIN] = IN_SIGMA_MIN(), NULL};
static const graft_output *const outputs[] = {OUT_SIGMAS(), NULL};

static graft_status run(graft_call *c)
{
    graft_sigmas *sigmas = NULL;
    graft_status st = graft_sigmas_exponential(graft_arg_i64(c, STEPS), graft_arg_f64(c, SIGMA_MAX),
                                               graft_arg_f64(c, SIGMA_MIN), &sigmas, &c->err);
    return st != GRAFT_OK ? st : graft_call_out_sigmas(c, 0, sigmas);
}

GRAFT_NODE(
    exponential_scheduler, .id = "ExponentialScheduler", .title = "ExponentialScheduler",
    .category = "sampling/custom_sampling/schedulers",
    .description =
        "Sigmas that shrink by the same factor in every step. The DPM++ samplers do well with it.");
