/* ModelMergeBlocks: two models mixed by a ratio for each part of the UNet. */
#include "nodes/node.h"

enum { MODEL1, MODEL2, INPUT, MIDDLE, OUT_BLOCKS };
static const graft_input *const inputs[] = {
    [MODEL1] = IN_OBJECT("model1", "MODEL", "The model that ratios of 1 give."),
    [MODEL2] =
        IN_OBJECT("model2", "MODEL",
                  "The model whose weights ratios of 0 give. It must have the same architecture."),
    [INPUT] = IN_FLOAT("input", 1.0, 0.0, 1.0, 0.01,
                       "How much of model1 is in the input blocks, and in the embeddings of time "
                       "and label."),
    [MIDDLE] =
        IN_FLOAT("middle", 1.0, 0.0, 1.0, 0.01, "How much of model1 is in the middle block."),
    [OUT_BLOCKS] = IN_FLOAT("out", 1.0, 0.0, 1.0, 0.01,
                            "How much of model1 is in the output blocks and the last layer."),
    NULL};
static const graft_output *const outputs[] = {
    OUT("MODEL", "MODEL", "The mixed model, with the options of model1."), NULL};

static graft_status run(graft_call *c)
{
    graft_model *model;
    const graft_merge_ratio ratio = {graft_arg_f64(c, INPUT), graft_arg_f64(c, MIDDLE),
                                     graft_arg_f64(c, OUT_BLOCKS)};
    graft_call_blame(c, MODEL2); /* may be of another architecture */
    graft_status st = graft_model_merge(graft_arg_model(c, MODEL1), graft_arg_model(c, MODEL2),
                                        &ratio, &model, &c->err);
    return st != GRAFT_OK ? st : graft_call_out_model(c, 0, model);
}

GRAFT_NODE(model_merge_blocks, .id = "ModelMergeBlocks", .title = "ModelMergeBlocks",
           .category = "advanced/model_merging",
           .description = "Mixes the weights of two models by a ratio for each part of the "
                          "network. The compiled graphs stay.");
