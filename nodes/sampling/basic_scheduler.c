/* BasicScheduler: KSampler's schedules, as sigmas. */
#include "nodes/sampling/sampler_inputs.h"

enum { MODEL, SCHEDULER, STEPS, DENOISE };
static const graft_input *const inputs[] = {
    [MODEL] = IN_OBJECT("model", "MODEL",
                        "The model that will be sampled: its training sets the largest and the "
                        "smallest amount of noise."),
    [SCHEDULER] = IN_SCHEDULER(),
    [STEPS] = IN_INT("steps", 20, 1, 10000, 0,
                     "How many steps to take. More take longer; most samplers need 20 to 30."),
    [DENOISE] =
        IN_FLOAT("denoise", 1.0, 0.0, 1.0, 0.01,
                 "Share of the noise to begin with. Go below 1 to start from a picture: 0.5 keeps "
                 "its composition, 0 changes nothing. The number of steps stays the same."),
    NULL};
static const graft_output *const outputs[] = {
    OUT("SIGMAS", "SIGMAS", "The noise that is left before each step, and none at the end."), NULL};

static graft_status run(graft_call *c)
{
    graft_sigmas *sigmas = NULL;
    graft_status st = graft_sigmas_from_model(graft_arg_model(c, MODEL),
                                              graft_arg_text(c, SCHEDULER), graft_arg_i64(c, STEPS),
                                              graft_arg_f64(c, DENOISE), &sigmas, &c->err);
    return st != GRAFT_OK ? st : graft_call_out_sigmas(c, 0, sigmas);
}

QUERY_SAMPLERS()

GRAFT_NODE(basic_scheduler, .id = "BasicScheduler", .title = "BasicScheduler",
           .category = "sampling/custom_sampling/schedulers",
           .description = "Makes the sigmas that KSampler would go through, for a custom sampler. "
                          "KSampler leaves one out with dpm_2, dpm_2_ancestral, uni_pc and "
                          "uni_pc_bh2; here all stay.",
           .query = query);
