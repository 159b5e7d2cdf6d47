/* SDTurboScheduler: the few sigmas that SD Turbo was distilled for. */
#include "nodes/sampling/sigma_inputs.h"

enum { MODEL, STEPS, DENOISE };
static const graft_input *const inputs[] = {
    [MODEL] = IN_OBJECT("model", "MODEL", "The turbo model that will be sampled."),
    [STEPS] = IN_INT("steps", 1, 1, 10, 0,
                     "How many of the ten steps to take, from the noisiest on. Turbo models need 1 "
                     "to 4."),
    [DENOISE] = IN_FLOAT("denoise", 1.0, 0.0, 1.0, 0.01,
                         "Which step to begin at, in tenths: 1 at pure noise, 0.5 halfway with a "
                         "picture as the start, 0 changes nothing."),
    NULL};
static const graft_output *const outputs[] = {OUT_SIGMAS(), NULL};

static graft_status run(graft_call *c)
{
    graft_sigmas *sigmas = NULL;
    graft_status st = graft_sigmas_turbo(graft_arg_model(c, MODEL), graft_arg_i64(c, STEPS),
                                         graft_arg_f64(c, DENOISE), &sigmas, &c->err);
    return st != GRAFT_OK ? st : graft_call_out_sigmas(c, 0, sigmas);
}

GRAFT_NODE(sd_turbo_scheduler, .id = "SDTurboScheduler", .title = "SDTurboScheduler",
           .category = "sampling/custom_sampling/schedulers",
           .description = "Sigmas for SD Turbo and SDXL Turbo, which know ten noise levels only. "
                          "They want a cfg of 1.");
