/* ConditioningSetTimestepRange: a prompt for a part of the steps. */
#include "nodes/node.h"

enum { CONDITIONING, START, END };
static const graft_input *const inputs[] = {
    [CONDITIONING] = IN_OBJECT("conditioning", "CONDITIONING", "The prompt to limit."),
    [START] = IN_FLOAT("start", 0.0, 0.0, 1.0, 0.001,
                       "Where the prompt begins to count: 0 is the start of sampling."),
    [END] = IN_FLOAT("end", 1.0, 0.0, 1.0, 0.001,
                     "Where the prompt stops counting: 1 is the end of sampling."),
    NULL};
static const graft_output *const outputs[] = {
    OUT("CONDITIONING", "CONDITIONING", "The prompt, used in this range only."), NULL};

static graft_status run(graft_call *c)
{
    graft_cond *cond = NULL;
    graft_status st =
        graft_cond_timestep_range(graft_arg_cond(c, CONDITIONING), graft_arg_f64(c, START),
                                  graft_arg_f64(c, END), &cond, &c->err);
    return st != GRAFT_OK ? st : graft_call_out_cond(c, 0, cond);
}

GRAFT_NODE(conditioning_set_timestep_range, .id = "ConditioningSetTimestepRange",
           .title = "ConditioningSetTimestepRange", .category = "advanced/conditioning",
           .description = "Lets a prompt guide only a part of sampling. Combine two with "
                          "neighbouring ranges to change the prompt on the way.");
