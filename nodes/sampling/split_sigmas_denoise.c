/* SplitSigmasDenoise: sigmas for two samplers, divided at a share of the steps. */
#include "nodes/node.h"

enum { SIGMAS, DENOISE };
static const graft_input *const inputs[] = {
    [SIGMAS] = IN_OBJECT("sigmas", "SIGMAS", "The sigmas to divide."),
    [DENOISE] = IN_FLOAT("denoise", 1.0, 0.0, 1.0, 0.01,
                         "Share of the steps that comes second, in low_sigmas: 0.3 is the last "
                         "three of ten steps, 1 is all of them."),
    NULL};
static const graft_output *const outputs[] = {
    OUT("high_sigmas", "SIGMAS", "The steps before: the noisy ones."),
    OUT("low_sigmas", "SIGMAS",
        "The last steps, for instance to change a picture as with a denoise below 1."),
    NULL};

static graft_status run(graft_call *c)
{
    graft_sigmas *high = NULL, *low = NULL;
    graft_status st = graft_sigmas_split_denoise(graft_arg_sigmas(c, SIGMAS),
                                                 graft_arg_f64(c, DENOISE), &high, &low, &c->err);
    return st != GRAFT_OK ? st : graft_call_out_two_sigmas(c, high, low);
}

GRAFT_NODE(split_sigmas_denoise, .id = "SplitSigmasDenoise", .title = "SplitSigmasDenoise",
           .category = "sampling/custom_sampling/sigmas",
           .description = "Divides sigmas so that the second part has a given share of the steps.");
