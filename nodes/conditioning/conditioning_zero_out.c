/* ConditioningZeroOut: a prompt that says nothing. */
#include "nodes/node.h"

enum { CONDITIONING };
static const graft_input *const inputs[] = {
    [CONDITIONING] = IN_OBJECT("conditioning", "CONDITIONING", "A prompt to empty."), NULL};
static const graft_output *const outputs[] = {
    OUT("CONDITIONING", "CONDITIONING", "The same conditioning with every number at zero."), NULL};

static graft_status run(graft_call *c)
{
    graft_cond *cond = NULL;
    graft_status st = graft_cond_zero_out(graft_arg_cond(c, CONDITIONING), &cond, &c->err);
    return st != GRAFT_OK ? st : graft_call_out_cond(c, 0, cond);
}

GRAFT_NODE(conditioning_zero_out, .id = "ConditioningZeroOut", .title = "ConditioningZeroOut",
           .category = "advanced/conditioning",
           .description = "Replaces an encoded prompt with zeros; as a negative prompt this is "
                          "emptier than an empty text.");
