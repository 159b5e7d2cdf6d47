/* LatentApplyOperationCFG: an operation on what guidance adds, in each step. */
#include "nodes/node.h"

enum { MODEL, OPERATION, START_PERCENT, END_PERCENT };
static const graft_input *const inputs[] = {
    [MODEL] = IN_OBJECT("model", "MODEL", "The diffusion model to change."),
    [OPERATION] =
        IN_OBJECT("operation", "LATENT_OPERATION", "What is done, from a LatentOperation node."),
    [START_PERCENT] =
        IN_FLOAT("start_percent", 0.0, 0.0, 1.0, 0.001,
                 "Where it begins: 0 is the start of the schedule.", .flags = GRAFT_INPUT_OPTIONAL),
    [END_PERCENT] =
        IN_FLOAT("end_percent", 1.0, 0.0, 1.0, 0.001,
                 "Where it ends: 1 is the end of the schedule.", .flags = GRAFT_INPUT_OPTIONAL),
    NULL};
static const graft_output *const outputs[] = {
    OUT("MODEL", "MODEL", "The model with this guidance."), NULL};

static graft_status run(graft_call *c)
{
    graft_model *model = NULL;
    graft_status st = graft_model_operate_cfg(
        graft_arg_model(c, MODEL), graft_arg_operation(c, OPERATION),
        graft_arg_f64(c, START_PERCENT), graft_arg_f64(c, END_PERCENT), &model, &c->err);
    return st != GRAFT_OK ? st : graft_call_out_model(c, 0, model);
}

GRAFT_NODE(
    latent_apply_operation_cfg, .id = "LatentApplyOperationCFG", .title = "LatentApplyOperationCFG",
    .category = "latent/advanced/operations", .flags = GRAFT_NODE_EXPERIMENTAL,
    .description = "Does an operation to what the prompt's prediction has and the negative one has "
                   "not, in each step of sampling; without a negative prompt, to the prediction.");
