/* PairConditioningSetProperties: ConditioningSetProperties for two prompts at once. */
#include "nodes/hooks/cond_props.h"

enum { POSITIVE_NEW, NEGATIVE_NEW, STRENGTH, SET_COND_AREA, MASK, HOOKS, TIMESTEPS };
static const graft_input *const inputs[] = {
    [POSITIVE_NEW] = IN_OBJECT("positive_NEW", "CONDITIONING", "What is wanted there."),
    [NEGATIVE_NEW] = IN_OBJECT("negative_NEW", "CONDITIONING", "What is not wanted there."),
    [STRENGTH] = IN_PROP_STRENGTH(),
    [SET_COND_AREA] = IN_PROP_AREA(),
    [MASK] = IN_PROP_MASK(),
    [HOOKS] = IN_PROP_HOOKS(),
    [TIMESTEPS] = IN_PROP_TIMESTEPS(),
    NULL};
static const graft_output *const outputs[] = {
    OUT("positive", "CONDITIONING", "The positive prompt with all that."),
    OUT("negative", "CONDITIONING", "The negative prompt with all that."), NULL};

static graft_status run(graft_call *c)
{
    graft_cond *positive = NULL, *negative = NULL;
    graft_status st = graft_cond_props_set(c, POSITIVE_NEW, STRENGTH, &positive);
    if (st == GRAFT_OK) st = graft_cond_props_set(c, NEGATIVE_NEW, STRENGTH, &negative);
    if (st == GRAFT_OK) return graft_call_out_two_conds(c, positive, negative);
    graft_cond_release(positive);
    return st;
}

GRAFT_NODE(pair_conditioning_set_properties, .id = "PairConditioningSetProperties",
           .title = "Cond Pair Set Props", .category = "advanced/hooks/cond pair",
           .flags = GRAFT_NODE_EXPERIMENTAL,
           .description =
               "Gives a positive and a negative prompt the same LoRAs, mask and range of "
               "the steps.");
