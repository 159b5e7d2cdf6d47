/* ModelMergeSD1: two models mixed by a ratio for each part of Stable Diffusion 1's network. */
#include "nodes/merging/merge_parts.h"

static const graft_input *const inputs[] = {MERGED_MODELS, UNET_OF_12_PARTS, NULL};
static const graft_output *const outputs[] = {
    OUT("MODEL", "MODEL", "The mixed model, with the options of model1."), NULL};

static graft_status run(graft_call *c)
{
    return graft_merge_parts_run(c, inputs);
}

GRAFT_NODE(model_merge_sd1, .id = "ModelMergeSD1", .title = "ModelMergeSD1",
           .category = "advanced/model_merging/model_specific",
           .description =
               "Mixes the weights of two models of Stable Diffusion 1 by a ratio for each part "
               "of the network. The compiled graphs stay.");
