/* FluxGuidance: the guidance scale that FLUX's network is told. */
#include "nodes/node.h"

enum { CONDITIONING, GUIDANCE };
static const graft_input *const inputs[] = {
    [CONDITIONING] = IN_OBJECT("conditioning", "CONDITIONING", "The prompt to change."),
    [GUIDANCE] = IN_FLOAT("guidance", 3.5, 0.0, 100.0, 0.1,
                          "How closely the picture follows the prompt: about 2 for photos, 3.5 for "
                          "most things."),
    NULL};
static const graft_output *const outputs[] = {
    OUT("CONDITIONING", "CONDITIONING", "The prompt with this guidance."), NULL};

static graft_status run(graft_call *c)
{
    graft_cond *cond = NULL;
    graft_status st = graft_cond_guidance(graft_arg_cond(c, CONDITIONING),
                                          graft_arg_f64(c, GUIDANCE), &cond, &c->err);
    return st != GRAFT_OK ? st : graft_call_out_cond(c, 0, cond);
}

GRAFT_NODE(flux_guidance, .id = "FluxGuidance", .title = "FluxGuidance",
           .category = "advanced/conditioning/flux",
           .description = "Sets the guidance scale that FLUX.1 dev is told with a prompt, which "
                          "takes the place of cfg. schnell and other models do not look at it.");
