/* ManualSigmas: sigmas as someone writes them. */
#include "nodes/node.h"

enum { SIGMAS };
static const graft_input *const inputs[] = {
    [SIGMAS] = IN_TEXT("sigmas", "1, 0.5",
                       "The sigmas, from most noise to least, with anything between them; end with "
                       "0 for a picture without noise."),
    NULL};
static const graft_output *const outputs[] = {
    OUT("SIGMAS", "SIGMAS", "As many sigmas as there are numbers in the text."), NULL};

static graft_status run(graft_call *c)
{
    graft_sigmas *sigmas = NULL;
    graft_call_blame(c, SIGMAS);
    graft_status st = graft_sigmas_from_text(graft_arg_text(c, SIGMAS), &sigmas, &c->err);
    return st != GRAFT_OK ? st : graft_call_out_sigmas(c, 0, sigmas);
}

GRAFT_NODE(manual_sigmas, .id = "ManualSigmas", .title = "ManualSigmas",
           .category = "_for_testing/custom_sampling", .flags = GRAFT_NODE_EXPERIMENTAL,
           .description = "The steps of a sampler written down by hand, such as those that a "
                          "distilled model was published with.");
