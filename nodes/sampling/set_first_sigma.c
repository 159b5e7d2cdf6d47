/* SetFirstSigma: sigmas that begin elsewhere. */
#include "nodes/node.h"

enum { SIGMAS, SIGMA };
static const graft_input *const inputs[] = {
    [SIGMAS] = IN_OBJECT("sigmas", "SIGMAS", "The sigmas to change; an empty list stays empty."),
    [SIGMA] = IN_FLOAT("sigma", 136.0, 0.0, 20000.0, 0.001,
                       "Noise before the first step. More than the model was trained with darkens "
                       "or brightens the whole picture.",
                       .flags = GRAFT_INPUT_EXACT),
    NULL};
static const graft_output *const outputs[] = {
    OUT("SIGMAS", "SIGMAS", "The same sigmas with a new first one."), NULL};

static graft_status run(graft_call *c)
{
    graft_sigmas *sigmas = NULL;
    graft_status st = graft_sigmas_set_first(graft_arg_sigmas(c, SIGMAS), graft_arg_f64(c, SIGMA),
                                             &sigmas, &c->err);
    return st != GRAFT_OK ? st : graft_call_out_sigmas(c, 0, sigmas);
}

GRAFT_NODE(set_first_sigma, .id = "SetFirstSigma", .title = "SetFirstSigma",
           .category = "sampling/custom_sampling/sigmas",
           .description = "Replaces the first sigma, the noise that sampling begins with.");
