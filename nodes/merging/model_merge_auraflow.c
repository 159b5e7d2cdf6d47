/* ModelMergeAuraflow: two models mixed by a ratio for each part of AuraFlow's network. */
#include "nodes/merging/merge_parts.h"

static const graft_input *const inputs[] = {MERGED_MODELS,
                                            PART("init_x_linear."),
                                            PART("positional_encoding"),
                                            PART("cond_seq_linear."),
                                            PART("register_tokens"),
                                            PART("t_embedder."),
                                            PART("double_layers.0."),
                                            PART("double_layers.1."),
                                            PART("double_layers.2."),
                                            PART("double_layers.3."),
                                            TEN_PARTS("single_layers.", ""),
                                            TEN_PARTS("single_layers.", "1"),
                                            TEN_PARTS("single_layers.", "2"),
                                            PART("single_layers.30."),
                                            PART("single_layers.31."),
                                            PART("modF."),
                                            PART("final_linear."),
                                            NULL};
static const graft_output *const outputs[] = {
    OUT("MODEL", "MODEL", "The mixed model, with the options of model1."), NULL};

static graft_status run(graft_call *c)
{
    return graft_merge_parts_run(c, inputs);
}

GRAFT_NODE(model_merge_auraflow, .id = "ModelMergeAuraflow", .title = "ModelMergeAuraflow",
           .category = "advanced/model_merging/model_specific",
           .description = "Mixes the weights of two models of AuraFlow by a ratio for each part "
                          "of the network. The compiled graphs stay.");
