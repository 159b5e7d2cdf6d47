/* SplitSigmas: sigmas for two samplers, divided at a step. */
#include "nodes/node.h"

enum { SIGMAS, STEP };
static const graft_input *const inputs[] = {
    [SIGMAS] = IN_OBJECT("sigmas", "SIGMAS", "The sigmas to divide."),
    [STEP] = IN_INT("step", 0, 0, 10000, 0,
                    "How many steps the first sampler takes; the second one does the rest. 0 "
                    "leaves the first nothing to do, the number of all steps the second."),
    NULL};
static const graft_output *const outputs[] = {
    OUT("high_sigmas", "SIGMAS", "For the first sampler: down to the step."),
    OUT("low_sigmas", "SIGMAS",
        "For the second sampler, from there on. Give it no new noise (DisableNoise)."),
    NULL};

static graft_status run(graft_call *c)
{
    graft_sigmas *high = NULL, *low = NULL;
    graft_status st = graft_sigmas_split(graft_arg_sigmas(c, SIGMAS), graft_arg_i64(c, STEP), &high,
                                         &low, &c->err);
    return st != GRAFT_OK ? st : graft_call_out_two_sigmas(c, high, low);
}

GRAFT_NODE(split_sigmas, .id = "SplitSigmas", .title = "SplitSigmas",
           .category = "sampling/custom_sampling/sigmas",
           .description = "Divides sigmas at a step, so that two samplers, models or prompts can "
                          "share one run.");
