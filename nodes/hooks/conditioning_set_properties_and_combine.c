/* ConditioningSetPropertiesAndCombine: ConditioningSetProperties, and ConditioningCombine. */
#include "nodes/hooks/cond_props.h"

enum { COND, COND_NEW, STRENGTH, SET_COND_AREA, MASK, HOOKS, TIMESTEPS };
static const graft_input *const inputs[] = {
    [COND] = IN_OBJECT("cond", "CONDITIONING", "The prompts so far, which stay as they are."),
    [COND_NEW] = IN_OBJECT("cond_NEW", "CONDITIONING", "The prompt that joins them."),
    [STRENGTH] = IN_PROP_STRENGTH(),
    [SET_COND_AREA] = IN_PROP_AREA(),
    [MASK] = IN_PROP_MASK(),
    [HOOKS] = IN_PROP_HOOKS(),
    [TIMESTEPS] = IN_PROP_TIMESTEPS(),
    NULL};
static const graft_output *const outputs[] = {OUT("CONDITIONING", "CONDITIONING", "All prompts."),
                                              NULL};

static graft_status run(graft_call *c)
{
    graft_cond *cond = NULL;
    graft_status st = graft_cond_props_add(c, COND, COND_NEW, STRENGTH, &cond);
    return st != GRAFT_OK ? st : graft_call_out_cond(c, 0, cond);
}

GRAFT_NODE(conditioning_set_properties_and_combine, .id = "ConditioningSetPropertiesAndCombine",
           .title = "Cond Set Props Combine", .category = "advanced/hooks/cond single",
           .flags = GRAFT_NODE_EXPERIMENTAL,
           .description = "Gives a prompt LoRAs of its own, a mask and a range of the steps, and "
                          "uses it beside others.");
