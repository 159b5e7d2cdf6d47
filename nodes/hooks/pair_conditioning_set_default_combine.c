/* PairConditioningSetDefaultCombine: ConditioningSetDefaultCombine for two sides at once. */
#include "nodes/node.h"

enum { POSITIVE, NEGATIVE, POSITIVE_DEFAULT, NEGATIVE_DEFAULT, HOOKS };
static const graft_input *const inputs[] = {
    [POSITIVE] = IN_OBJECT("positive", "CONDITIONING", "The positive prompts, with masks."),
    [NEGATIVE] = IN_OBJECT("negative", "CONDITIONING", "The negative prompts, with masks."),
    [POSITIVE_DEFAULT] =
        IN_OBJECT("positive_DEFAULT", "CONDITIONING", "What is wanted in the rest."),
    [NEGATIVE_DEFAULT] =
        IN_OBJECT("negative_DEFAULT", "CONDITIONING", "What is not wanted in the rest."),
    [HOOKS] =
        IN_OBJECT("hooks", "HOOKS", "LoRAs for the rest alone.", .flags = GRAFT_INPUT_OPTIONAL),
    NULL};
static const graft_output *const outputs[] = {
    OUT("positive", "CONDITIONING", "All positive prompts."),
    OUT("negative", "CONDITIONING", "All negative prompts."), NULL};

static graft_status run(graft_call *c)
{
    const graft_hooks *hooks = graft_arg_hooks(c, HOOKS);
    graft_cond *positive = NULL, *negative = NULL;
    graft_status st =
        graft_cond_default(graft_arg_cond(c, POSITIVE), graft_arg_cond(c, POSITIVE_DEFAULT), hooks,
                           &positive, &c->err);
    if (st == GRAFT_OK)
        st = graft_cond_default(graft_arg_cond(c, NEGATIVE), graft_arg_cond(c, NEGATIVE_DEFAULT),
                                hooks, &negative, &c->err);
    if (st == GRAFT_OK) return graft_call_out_two_conds(c, positive, negative);
    graft_cond_release(positive);
    return st;
}

GRAFT_NODE(pair_conditioning_set_default_combine, .id = "PairConditioningSetDefaultCombine",
           .title = "Cond Pair Set Default Combine", .category = "advanced/hooks/cond pair",
           .flags = GRAFT_NODE_EXPERIMENTAL,
           .description = "Lets a pair of prompts count where, and when, others leave something.");
