/* ModelMergeAdd: the sum of two models. */
#include "nodes/node.h"

enum { MODEL1, MODEL2 };
static const graft_input *const inputs[] = {
    [MODEL1] = IN_OBJECT("model1", "MODEL", "The model to add to."),
    [MODEL2] = IN_OBJECT("model2", "MODEL",
                         "What to add: most often a difference that ModelMergeSubtract made. It "
                         "must have the same architecture."),
    NULL};
static const graft_output *const outputs[] = {
    OUT("MODEL", "MODEL", "model1 + model2, with the options of model1."), NULL};

static graft_status run(graft_call *c)
{
    graft_model *model;
    graft_call_blame(c, MODEL2); /* may be of another architecture */
    graft_status st = graft_model_merge_add(graft_arg_model(c, MODEL1), graft_arg_model(c, MODEL2),
                                            &model, &c->err);
    return st != GRAFT_OK ? st : graft_call_out_model(c, 0, model);
}

GRAFT_NODE(model_merge_add, .id = "ModelMergeAdd", .title = "ModelMergeAdd",
           .category = "advanced/model_merging",
           .description = "Adds the weights of two models. The compiled graphs stay.");
