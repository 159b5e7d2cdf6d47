/* ModelMergeSubtract: the difference of two models. */
#include "nodes/node.h"

enum { MODEL1, MODEL2, MULTIPLIER };
static const graft_input *const inputs[] = {
    [MODEL1] = IN_OBJECT("model1", "MODEL", "The model to subtract from."),
    [MODEL2] =
        IN_OBJECT("model2", "MODEL", "The model to subtract. It must have the same architecture."),
    [MULTIPLIER] = IN_FLOAT("multiplier", 1.0, -10.0, 10.0, 0.01, "Factor of the difference."),
    NULL};
static const graft_output *const outputs[] = {
    OUT("MODEL", "MODEL",
        "multiplier * (model1 - model2), with the options of model1: a difference, which "
        "ModelMergeAdd adds to a model."),
    NULL};

static graft_status run(graft_call *c)
{
    graft_model *model;
    graft_call_blame(c, MODEL2); /* may be of another architecture */
    graft_status st =
        graft_model_merge_subtract(graft_arg_model(c, MODEL1), graft_arg_model(c, MODEL2),
                                   graft_arg_f64(c, MULTIPLIER), &model, &c->err);
    return st != GRAFT_OK ? st : graft_call_out_model(c, 0, model);
}

GRAFT_NODE(model_merge_subtract, .id = "ModelMergeSubtract", .title = "ModelMergeSubtract",
           .category = "advanced/model_merging",
           .description = "Subtracts the weights of one model from another's.");
