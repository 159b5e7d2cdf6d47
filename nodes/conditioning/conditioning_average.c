/* ConditioningAverage: a prompt between two. */
#include "nodes/node.h"

enum { CONDITIONING_TO, CONDITIONING_FROM, STRENGTH };
static const graft_input *const inputs[] = {
    [CONDITIONING_TO] = IN_OBJECT("conditioning_to", "CONDITIONING",
                                  "The prompt that a strength of 1 gives; its options are kept."),
    [CONDITIONING_FROM] =
        IN_OBJECT("conditioning_from", "CONDITIONING", "The prompt that a strength of 0 gives."),
    [STRENGTH] = IN_FLOAT("conditioning_to_strength", 1.0, 0.0, 1.0, 0.01,
                          "Share of conditioning_to in the mix; 0.5 is half way between the two."),
    NULL};
static const graft_output *const outputs[] = {
    OUT("CONDITIONING", "CONDITIONING", "The mixed prompt."), NULL};

static graft_status run(graft_call *c)
{
    graft_cond *cond = NULL;
    graft_status st =
        graft_cond_average(graft_arg_cond(c, CONDITIONING_TO), graft_arg_cond(c, CONDITIONING_FROM),
                           graft_arg_f64(c, STRENGTH), &cond, &c->err);
    return st != GRAFT_OK ? st : graft_call_out_cond(c, 0, cond);
}

GRAFT_NODE(conditioning_average, .id = "ConditioningAverage", .title = "ConditioningAverage",
           .category = "conditioning",
           .description = "Mixes two encoded prompts into one that lies between them.");
