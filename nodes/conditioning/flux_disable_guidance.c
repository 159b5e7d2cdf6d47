/* FluxDisableGuidance: FLUX's network is told no guidance scale. */
#include "nodes/node.h"

enum { CONDITIONING };
static const graft_input *const inputs[] = {
    [CONDITIONING] = IN_OBJECT("conditioning", "CONDITIONING", "The prompt to change."), NULL};
static const graft_output *const outputs[] = {
    OUT("CONDITIONING", "CONDITIONING", "The prompt without guidance."), NULL};

static graft_status run(graft_call *c)
{
    graft_cond *cond = NULL;
    graft_status st = graft_cond_untold(graft_arg_cond(c, CONDITIONING), &cond, &c->err);
    return st != GRAFT_OK ? st : graft_call_out_cond(c, 0, cond);
}

GRAFT_NODE(flux_disable_guidance, .id = "FluxDisableGuidance", .title = "FluxDisableGuidance",
           .category = "advanced/conditioning/flux",
           .description =
               "Leaves out the guidance scale that FLUX.1 dev is told with a prompt, for "
               "models of its kind that were trained without. schnell and other models "
               "are told none in any case.");
