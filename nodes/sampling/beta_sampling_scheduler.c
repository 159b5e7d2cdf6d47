/* BetaSamplingScheduler: the beta schedule with its two numbers. */
#include "nodes/sampling/sigma_inputs.h"

enum { MODEL, STEPS, ALPHA, BETA };
static const graft_input *const inputs[] = {
    [MODEL] = IN_OBJECT("model", "MODEL",
                        "The model that will be sampled: its training sets the largest and the "
                        "smallest amount of noise."),
    [STEPS] = IN_SIGMA_STEPS(),
    [ALPHA] = IN_FLOAT("alpha", 0.6, 0.0, 50.0, 0.01,
                       "Smaller: more steps where there is most noise. 0 has no meaning.",
                       .flags = GRAFT_INPUT_EXACT),
    [BETA] = IN_FLOAT("beta", 0.6, 0.0, 50.0, 0.01,
                      "Smaller: more steps at the end, for fine detail. 0 has no meaning.",
                      .flags = GRAFT_INPUT_EXACT),
    NULL};
static const graft_output *const outputs[] = {OUT_SIGMAS(), NULL};

static graft_status run(graft_call *c)
{
    graft_sigmas *sigmas = NULL;
    graft_status st =
        graft_sigmas_beta(graft_arg_model(c, MODEL), graft_arg_i64(c, STEPS),
                          graft_arg_f64(c, ALPHA), graft_arg_f64(c, BETA), &sigmas, &c->err);
    return st != GRAFT_OK ? st : graft_call_out_sigmas(c, 0, sigmas);
}

GRAFT_NODE(beta_sampling_scheduler, .id = "BetaSamplingScheduler", .title = "BetaSamplingScheduler",
           .category = "sampling/custom_sampling/schedulers",
           .description =
               "Steps spread by a beta distribution: dense at both ends, where it counts "
               "most. With 0.6 and 0.6 it is the scheduler named beta.");
