/* PairConditioningSetPropertiesAndCombine: that, and PairConditioningCombine. */
#include "nodes/hooks/cond_props.h"

enum {
    POSITIVE,
    NEGATIVE,
    POSITIVE_NEW,
    NEGATIVE_NEW,
    STRENGTH,
    SET_COND_AREA,
    MASK,
    HOOKS,
    TIMESTEPS
};
static const graft_input *const inputs[] = {
    [POSITIVE] = IN_OBJECT("positive", "CONDITIONING", "The positive prompts so far."),
    [NEGATIVE] = IN_OBJECT("negative", "CONDITIONING", "The negative prompts so far."),
    [POSITIVE_NEW] = IN_OBJECT("positive_NEW", "CONDITIONING", "What is wanted there."),
    [NEGATIVE_NEW] = IN_OBJECT("negative_NEW", "CONDITIONING", "What is not wanted there."),
    [STRENGTH] = IN_PROP_STRENGTH(),
    [SET_COND_AREA] = IN_PROP_AREA(),
    [MASK] = IN_PROP_MASK(),
    [HOOKS] = IN_PROP_HOOKS(),
    [TIMESTEPS] = IN_PROP_TIMESTEPS(),
    NULL};
static const graft_output *const outputs[] = {
    OUT("positive", "CONDITIONING", "All positive prompts."),
    OUT("negative", "CONDITIONING", "All negative prompts."), NULL};

static graft_status run(graft_call *c)
{
    graft_cond *positive = NULL, *negative = NULL;
    graft_status st = graft_cond_props_add(c, POSITIVE, POSITIVE_NEW, STRENGTH, &positive);
    if (st == GRAFT_OK) st = graft_cond_props_add(c, NEGATIVE, NEGATIVE_NEW, STRENGTH, &negative);
    if (st == GRAFT_OK) return graft_call_out_two_conds(c, positive, negative);
    graft_cond_release(positive);
    return st;
}

GRAFT_NODE(pair_conditioning_set_properties_and_combine,
           .id = "PairConditioningSetPropertiesAndCombine", .title = "Cond Pair Set Props Combine",
           .category = "advanced/hooks/cond pair", .flags = GRAFT_NODE_EXPERIMENTAL,
           .description =
               "Gives a positive and a negative prompt the same LoRAs, mask and range of "
               "the steps, and uses them beside others.");
