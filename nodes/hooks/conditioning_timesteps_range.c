/* ConditioningTimestepsRange: a part of the steps, and what is before and after it. */
#include "nodes/node.h"

enum { START_PERCENT, END_PERCENT };
static const graft_input *const inputs[] = {
    [START_PERCENT] = IN_FLOAT("start_percent", 0.0, 0.0, 1.0, 0.001,
                               "Where the range begins: 0 is the start of sampling."),
    [END_PERCENT] = IN_FLOAT("end_percent", 1.0, 0.0, 1.0, 0.001,
                             "Where the range ends: 1 is the end of sampling."),
    NULL};
static const graft_output *const outputs[] = {
    OUT("TIMESTEPS_RANGE", "TIMESTEPS_RANGE", "The range, for Cond Set Props."),
    OUT("BEFORE_RANGE", "TIMESTEPS_RANGE", "What is before it."),
    OUT("AFTER_RANGE", "TIMESTEPS_RANGE", "What is after it."), NULL};

static graft_status run(graft_call *c)
{
    const double start = graft_arg_f64(c, START_PERCENT), end = graft_arg_f64(c, END_PERCENT);
    graft_status st = graft_call_out_range(c, 0, start, end);
    if (st == GRAFT_OK) st = graft_call_out_range(c, 1, 0, start);
    return st != GRAFT_OK ? st : graft_call_out_range(c, 2, end, 1);
}

GRAFT_NODE(conditioning_timesteps_range, .id = "ConditioningTimestepsRange",
           .title = "Timesteps Range", .category = "advanced/hooks",
           .flags = GRAFT_NODE_EXPERIMENTAL,
           .description = "A part of the steps for prompts to count in.");
