/* ModelMergeSD3_2B: two models mixed by a ratio for each part of Stable Diffusion 3 medium's
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
                                            PART("joint_blocks.20."),
                                            PART("joint_blocks.21."),
                                            PART("joint_blocks.22."),
                                            PART("joint_blocks.23."),
                                            PART("final_layer."),
                                            NULL};
static const graft_output *const outputs[] = {
    OUT("MODEL", "MODEL", "The mixed model, with the options of model1."), NULL};

static graft_status run(graft_call *c)
{
    return graft_merge_parts_run(c, inputs);
}

GRAFT_NODE(
    model_merge_sd3_2b, .id = "ModelMergeSD3_2B", .title = "ModelMergeSD3_2B",
    .category = "advanced/model_merging/model_specific",
    .description =
        "Mixes the weights of two models of Stable Diffusion 3 medium by a ratio for each part "
        "of the network. The compiled graphs stay.");
