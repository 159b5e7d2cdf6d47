/* PairConditioningCombine: ConditioningCombine for two sides at once. */
#include "nodes/node.h"

enum { POSITIVE_A, NEGATIVE_A, POSITIVE_B, NEGATIVE_B };
static const graft_input *const inputs[] = {
    [POSITIVE_A] = IN_OBJECT("positive_A", "CONDITIONING", "Some of the positive prompts."),
    [NEGATIVE_A] = IN_OBJECT("negative_A", "CONDITIONING", "Some of the negative prompts."),
    [POSITIVE_B] = IN_OBJECT("positive_B", "CONDITIONING", "The other positive prompts."),
    [NEGATIVE_B] = IN_OBJECT("negative_B", "CONDITIONING", "The other negative prompts."),
    NULL};
static const graft_output *const outputs[] = {
    OUT("positive", "CONDITIONING", "All positive prompts."),
    OUT("negative", "CONDITIONING", "All negative prompts."), NULL};

static graft_status run(graft_call *c)
{
    graft_cond *positive = NULL, *negative = NULL;
    graft_status st = graft_cond_combine(graft_arg_cond(c, POSITIVE_A),
                                         graft_arg_cond(c, POSITIVE_B), &positive, &c->err);
    if (st == GRAFT_OK)
        st = graft_cond_combine(graft_arg_cond(c, NEGATIVE_A), graft_arg_cond(c, NEGATIVE_B),
                                &negative, &c->err);
    if (st == GRAFT_OK) return graft_call_out_two_conds(c, positive, negative);
    graft_cond_release(positive);
    return st;
}

GRAFT_NODE(pair_conditioning_combine, .id = "PairConditioningCombine", .title = "Cond Pair Combine",
           .category = "advanced/hooks/cond pair", .flags = GRAFT_NODE_EXPERIMENTAL,
           .description = "Uses two pairs of prompts side by side.");
