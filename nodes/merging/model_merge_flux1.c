/* ModelMergeFlux1: two models mixed by a ratio for each part of FLUX.1's network. */
#include "nodes/merging/merge_parts.h"

static const graft_input *const inputs[] = {MERGED_MODELS,
                                            PART("img_in."),
                                            PART("time_in."),
                                            PART("guidance_in"),
                                            PART("vector_in."),
                                            PART("txt_in."),
                                            TEN_PARTS("double_blocks.", ""),
                                            NINE_PARTS("double_blocks.", "1"),
                                            TEN_PARTS("single_blocks.", ""),
                                            TEN_PARTS("single_blocks.", "1"),
                                            TEN_PARTS("single_blocks.", "2"),
                                            PART("single_blocks.30."),
                                            PART("single_blocks.31."),
                                            PART("single_blocks.32."),
                                            PART("single_blocks.33."),
                                            PART("single_blocks.34."),
                                            PART("single_blocks.35."),
                                            PART("single_blocks.36."),
                                            PART("single_blocks.37."),
                                            PART("final_layer."),
                                            NULL};
static const graft_output *const outputs[] = {
    OUT("MODEL", "MODEL", "The mixed model, with the options of model1."), NULL};

static graft_status run(graft_call *c)
{
    return graft_merge_parts_run(c, inputs);
}

GRAFT_NODE(model_merge_flux1, .id = "ModelMergeFlux1", .title = "ModelMergeFlux1",
           .category = "advanced/model_merging/model_specific",
           .description = "Mixes the weights of two models of FLUX.1 by a ratio for each part "
                          "of the network. The compiled graphs stay.");
