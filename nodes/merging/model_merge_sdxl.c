/* ModelMergeSDXL: two models mixed by a ratio for each part of SDXL's network. */
#include "nodes/merging/merge_parts.h"

static const graft_input *const inputs[] = {MERGED_MODELS,
                                            PART("time_embed."),
                                            PART("label_emb."),
                                            NINE_PARTS("input_blocks.", ""),
                                            PART("middle_block.0."),
                                            PART("middle_block.1."),
                                            PART("middle_block.2."),
                                            NINE_PARTS("output_blocks.", ""),
                                            PART("out."),
                                            NULL};
static const graft_output *const outputs[] = {
    OUT("MODEL", "MODEL", "The mixed model, with the options of model1."), NULL};

static graft_status run(graft_call *c)
{
    return graft_merge_parts_run(c, inputs);
}

GRAFT_NODE(model_merge_sdxl, .id = "ModelMergeSDXL", .title = "ModelMergeSDXL",
           .category = "advanced/model_merging/model_specific",
           .description = "Mixes the weights of two models of SDXL by a ratio for each part "
                          "of the network. The compiled graphs stay.");
