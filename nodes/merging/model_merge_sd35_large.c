/* ModelMergeSD35_Large: two models mixed by a ratio for each part of Stable Diffusion 3.5 large's
 * network. */
#include "nodes/merging/merge_parts.h"

static const graft_input *const inputs[] = {MERGED_MODELS,
                                            PART("pos_embed."),
                                            PART("x_embedder."),
                                            PART("context_embedder."),
                                            PART("y_embedder."),
                                            PART("t_embedder."),
                                            TEN_PARTS("joint_blocks.", ""),
                                            TEN_PARTS("joint_blocks.", "1"),
                                            TEN_PARTS("joint_blocks.", "2"),
                                            PART("joint_blocks.30."),
                                            PART("joint_blocks.31."),
                                            PART("joint_blocks.32."),
                                            PART("joint_blocks.33."),
                                            PART("joint_blocks.34."),
                                            PART("joint_blocks.35."),
                                            PART("joint_blocks.36."),
                                            PART("joint_blocks.37."),
                                            PART("final_layer."),
                                            NULL};
static const graft_output *const outputs[] = {
    OUT("MODEL", "MODEL", "The mixed model, with the options of model1."), NULL};

static graft_status run(graft_call *c)
{
    return graft_merge_parts_run(c, inputs);
}

GRAFT_NODE(
    model_merge_sd35_large, .id = "ModelMergeSD35_Large", .title = "ModelMergeSD35_Large",
    .category = "advanced/model_merging/model_specific",
    .description =
        "Mixes the weights of two models of Stable Diffusion 3.5 large by a ratio for each part "
        "of the network. The compiled graphs stay.");
