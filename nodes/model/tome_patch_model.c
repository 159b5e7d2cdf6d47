/* TomePatchModel: self-attention sees tokens that are alike as one. */
#include "nodes/node.h"

enum { MODEL, RATIO };
static const graft_input *const inputs[] = {
    [MODEL] = IN_OBJECT("model", "MODEL", "The diffusion model to speed up."),
    [RATIO] = IN_FLOAT("ratio", 0.3, 0.0, 1.0, 0.01,
                       "How much of what self-attention of the latent's full size compares is "
                       "merged with what is like it. More is faster, and fine details are lost; "
                       "above 0.75 nothing changes any more. 0 changes nothing."),
    NULL};
static const graft_output *const outputs[] = {
    OUT("MODEL", "MODEL", "The model, whose self-attention merges tokens."), NULL};

static graft_status run(graft_call *c)
{
    graft_model *model = NULL;
    graft_status st = graft_model_merge_tokens(graft_arg_model(c, MODEL), graft_arg_f64(c, RATIO),
                                               &model, &c->err);
    return st != GRAFT_OK ? st : graft_call_out_model(c, 0, model);
}

GRAFT_NODE(tome_patch_model, .id = "TomePatchModel", .title = "TomePatchModel",
           .category = "model_patches/unet",
           .description = "Token merging: where the picture repeats itself self-attention looks "
                          "once, and large pictures are sampled faster. Models without attention "
                          "at the latent's full size, as SDXL, are as they were.");
