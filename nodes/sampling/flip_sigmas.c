/* FlipSigmas: from a picture back to its noise. */
#include "nodes/node.h"

enum { SIGMAS };
static const graft_input *const inputs[] = {
    [SIGMAS] = IN_OBJECT("sigmas", "SIGMAS", "The sigmas to reverse."), NULL};
static const graft_output *const outputs[] = {
    OUT("SIGMAS", "SIGMAS",
        "The same in reverse order. A zero at the beginning becomes 0.0001, since samplers divide "
        "by it."),
    NULL};

static graft_status run(graft_call *c)
{
    graft_sigmas *sigmas = NULL;
    graft_status st = graft_sigmas_flip(graft_arg_sigmas(c, SIGMAS), &sigmas, &c->err);
    return st != GRAFT_OK ? st : graft_call_out_sigmas(c, 0, sigmas);
}

GRAFT_NODE(flip_sigmas, .id = "FlipSigmas", .title = "FlipSigmas",
           .category = "sampling/custom_sampling/sigmas",
           .description = "Reverses sigmas, so that euler or ddim walks from a picture to the "
                          "noise that it would come from. Add no noise there.");
