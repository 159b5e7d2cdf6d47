/* ConditioningConcat: two prompts as one longer one. */
#include "nodes/node.h"

enum { CONDITIONING_TO, CONDITIONING_FROM };
static const graft_input *const inputs[] = {
    [CONDITIONING_TO] = IN_OBJECT("conditioning_to", "CONDITIONING",
                                  "The prompt that comes first; its options are kept."),
    [CONDITIONING_FROM] =
        IN_OBJECT("conditioning_from", "CONDITIONING", "The prompt that is appended."),
    NULL};
static const graft_output *const outputs[] = {
    OUT("CONDITIONING", "CONDITIONING", "One prompt with the tokens of both."), NULL};

static graft_status run(graft_call *c)
{
    graft_cond *cond = NULL;
    graft_status st = graft_cond_concat(graft_arg_cond(c, CONDITIONING_TO),
                                        graft_arg_cond(c, CONDITIONING_FROM), &cond, &c->err);
    return st != GRAFT_OK ? st : graft_call_out_cond(c, 0, cond);
}

GRAFT_NODE(conditioning_concat, .id = "ConditioningConcat", .title = "Conditioning (Concat)",
           .category = "conditioning",
           .description = "Joins two encoded prompts into one, so that words of one cannot colour "
                          "the other.");
