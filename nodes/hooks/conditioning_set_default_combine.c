/* ConditioningSetDefaultCombine: a prompt for what the masks of others leave. */
#include "nodes/node.h"

enum { COND, COND_DEFAULT, HOOKS };
static const graft_input *const inputs[] = {
    [COND] = IN_OBJECT("cond", "CONDITIONING", "The prompts, with masks or areas."),
    [COND_DEFAULT] = IN_OBJECT("cond_DEFAULT", "CONDITIONING",
                               "The prompt for the rest; it needs no mask, and one is not looked "
                               "at."),
    [HOOKS] =
        IN_OBJECT("hooks", "HOOKS", "LoRAs for the rest alone.", .flags = GRAFT_INPUT_OPTIONAL),
    NULL};
static const graft_output *const outputs[] = {OUT("CONDITIONING", "CONDITIONING", "All prompts."),
                                              NULL};

static graft_status run(graft_call *c)
{
    graft_cond *cond = NULL;
    graft_status st = graft_cond_default(graft_arg_cond(c, COND), graft_arg_cond(c, COND_DEFAULT),
                                         graft_arg_hooks(c, HOOKS), &cond, &c->err);
    return st != GRAFT_OK ? st : graft_call_out_cond(c, 0, cond);
}

GRAFT_NODE(conditioning_set_default_combine, .id = "ConditioningSetDefaultCombine",
           .title = "Cond Set Default Combine", .category = "advanced/hooks/cond single",
           .flags = GRAFT_NODE_EXPERIMENTAL,
           .description = "Lets a prompt count where, and when, others leave something: the "
                          "background of a picture of masks.");
