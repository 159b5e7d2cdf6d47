/* ConditioningSetAreaStrength: how much a prompt counts beside others. */
#include "nodes/node.h"

enum { CONDITIONING, STRENGTH };
static const graft_input *const inputs[] = {
    [CONDITIONING] = IN_OBJECT("conditioning", "CONDITIONING", "The prompt to weigh."),
    [STRENGTH] = IN_FLOAT("strength", 1.0, 0.0, 10.0, 0.01,
                          "How much the prompt counts beside others that lie in the same place."),
    NULL};
static const graft_output *const outputs[] = {
    OUT("CONDITIONING", "CONDITIONING", "The prompt with this strength."), NULL};

static graft_status run(graft_call *c)
{
    graft_cond *cond = NULL;
    graft_status st = graft_cond_strength(graft_arg_cond(c, CONDITIONING),
                                          graft_arg_f64(c, STRENGTH), &cond, &c->err);
    return st != GRAFT_OK ? st : graft_call_out_cond(c, 0, cond);
}

GRAFT_NODE(conditioning_set_area_strength, .id = "ConditioningSetAreaStrength",
           .title = "ConditioningSetAreaStrength", .category = "conditioning",
           .description = "Sets how much a prompt counts among combined ones, with an area or "
                          "without. Alone it changes nothing.");
