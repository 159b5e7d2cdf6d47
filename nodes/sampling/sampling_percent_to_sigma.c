/* SamplingPercentToSigma: how much noise is left after a share of the schedule. */
#include "nodes/node.h"

enum { MODEL, SAMPLING_PERCENT, RETURN_ACTUAL_SIGMA };
static const graft_input *const inputs[] = {
    [MODEL] = IN_OBJECT("model", "MODEL", "The diffusion model whose schedule is meant."),
    [SAMPLING_PERCENT] = IN_FLOAT("sampling_percent", 0.0, 0.0, 1.0, 0.0001,
                                  "How much of the schedule is over: 0 is its start, 1 its end."),
    [RETURN_ACTUAL_SIGMA] =
        IN_BOOL("return_actual_sigma", false,
                "At 0 and 1 give the largest and the smallest sigma of the model, instead of the "
                "limits that ranges of steps have there, which lie beyond those."),
    NULL};
static const graft_output *const outputs[] = {OUT("sigma_value", "FLOAT", "The sigma."), NULL};

static graft_status run(graft_call *c)
{
    double sigma = 0;
    graft_status st =
        graft_sigmas_at_percent(graft_arg_model(c, MODEL), graft_arg_f64(c, SAMPLING_PERCENT),
                                graft_arg_bool(c, RETURN_ACTUAL_SIGMA), &sigma, &c->err);
    return st != GRAFT_OK ? st : graft_call_out_f64(c, 0, sigma);
}

GRAFT_NODE(sampling_percent_to_sigma, .id = "SamplingPercentToSigma",
           .title = "SamplingPercentToSigma", .category = "sampling/custom_sampling/sigmas",
           .description = "Turns a share of the schedule, as start_percent and end_percent are, "
                          "into a sigma of this model.");
