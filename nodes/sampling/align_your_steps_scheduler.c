/* AlignYourStepsScheduler: sigmas that were optimised for a kind of model. */
#include "nodes/node.h"

enum { MODEL_TYPE, STEPS, DENOISE };
static const graft_input *const inputs[] = {
    [MODEL_TYPE] = IN_CHOICE("model_type", CHOICES("SD1", "SDXL", "SVD"),
                             "The kind of model that will be sampled."),
    [STEPS] = IN_INT("steps", 10, 1, 10000, 0,
                     "How many steps the sampler takes. 10 is what the sigmas were made for."),
    [DENOISE] = IN_FLOAT("denoise", 1.0, 0.0, 1.0, 0.01,
                         "Share of the steps to take, the last ones. Go below 1 to start from a "
                         "picture; 0 takes none."),
    NULL};
static const graft_output *const outputs[] = {
    OUT("SIGMAS", "SIGMAS", "The noise that is left before each step, and none at the end."), NULL};

static graft_status run(graft_call *c)
{
    graft_sigmas *sigmas = NULL;
    graft_status st =
        graft_sigmas_align_your_steps(graft_arg_text(c, MODEL_TYPE), graft_arg_i64(c, STEPS),
                                      graft_arg_f64(c, DENOISE), &sigmas, &c->err);
    return st != GRAFT_OK ? st : graft_call_out_sigmas(c, 0, sigmas);
}

GRAFT_NODE(align_your_steps_scheduler, .id = "AlignYourStepsScheduler",
           .title = "AlignYourStepsScheduler", .category = "sampling/custom_sampling/schedulers",
           .description = "Sigmas that give good pictures in few steps, found by their authors for "
                          "SD 1.5 and SDXL. Those for video are not supported.");
