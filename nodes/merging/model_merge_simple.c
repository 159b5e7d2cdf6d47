/* ModelMergeSimple: two models mixed by a ratio. */
#include "nodes/node.h"

enum { MODEL1, MODEL2, RATIO };
static const graft_input *const inputs[] = {
    [MODEL1] = IN_OBJECT("model1", "MODEL", "The model that a ratio of 1 gives."),
    [MODEL2] = IN_OBJECT(
        "model2", "MODEL",
        "The model whose weights a ratio of 0 gives. It must have the same architecture."),
    [RATIO] = IN_FLOAT("ratio", 1.0, 0.0, 1.0, 0.01,
                       "How much of model1 is in the result; the rest is model2."),
    NULL};
static const graft_output *const outputs[] = {
    OUT("MODEL", "MODEL", "ratio * model1 + (1 - ratio) * model2, with the options of model1."),
    NULL};

static graft_status run(graft_call *c)
{
    graft_model *model;
    double r = graft_arg_f64(c, RATIO);
    const graft_merge_ratio ratio = {r, r, r};
    graft_call_blame(c, MODEL2); /* may be of another architecture */
    graft_status st = graft_model_merge(graft_arg_model(c, MODEL1), graft_arg_model(c, MODEL2),
                                        &ratio, &model, &c->err);
    return st != GRAFT_OK ? st : graft_call_out_model(c, 0, model);
}

GRAFT_NODE(model_merge_simple, .id = "ModelMergeSimple", .title = "ModelMergeSimple",
           .category = "advanced/model_merging",
           .description = "Mixes the weights of two models, LoRAs included. The compiled graphs "
                          "stay: only weights are mixed when they are needed.");
