/* ConditioningCombine: two prompts, each predicted on its own. */
#include "nodes/node.h"

enum { CONDITIONING_1, CONDITIONING_2 };
static const graft_input *const inputs[] = {
    [CONDITIONING_1] = IN_OBJECT("conditioning_1", "CONDITIONING", "One of the prompts."),
    [CONDITIONING_2] = IN_OBJECT("conditioning_2", "CONDITIONING", "The other prompt."),
    NULL};
static const graft_output *const outputs[] = {
    OUT("CONDITIONING", "CONDITIONING", "Both prompts; each costs a prediction per step."), NULL};

static graft_status run(graft_call *c)
{
    graft_cond *cond = NULL;
    graft_status st = graft_cond_combine(graft_arg_cond(c, CONDITIONING_1),
                                         graft_arg_cond(c, CONDITIONING_2), &cond, &c->err);
    return st != GRAFT_OK ? st : graft_call_out_cond(c, 0, cond);
}

GRAFT_NODE(conditioning_combine, .id = "ConditioningCombine", .title = "Conditioning (Combine)",
           .category = "conditioning",
           .description = "Uses two prompts side by side: the model predicts for each, and the "
                          "predictions are averaged.");
