/* ZImageFunControlnet: a Z-Image model that follows a picture, or completes one. */
#include "nodes/controls/model_patch.h"
#include "nodes/node.h"

enum { STRENGTH = GRAFT_MODEL_PATCH_VAE + 1, IMAGE, INPAINT_IMAGE, MASK };
static const graft_input *const inputs[] = {
    [GRAFT_MODEL_PATCH_MODEL] = &graft_model_patch_model,
    [GRAFT_MODEL_PATCH_PATCH] = &graft_model_patch_patch,
    [GRAFT_MODEL_PATCH_VAE] = &graft_model_patch_vae,
    [STRENGTH] = &graft_model_patch_strength,
    [IMAGE] = IN_OBJECT("image", "IMAGE",
                        "The picture to follow, of a kind that the ControlNet was trained with: "
                        "outlines, depth, a pose. It is scaled and cut to the size of the latent.",
                        .flags = GRAFT_INPUT_OPTIONAL),
    [INPAINT_IMAGE] =
        IN_OBJECT("inpaint_image", "IMAGE",
                  "A picture that is to stay where the mask is black. From version 2.0 on.",
                  .flags = GRAFT_INPUT_OPTIONAL),
    [MASK] = IN_OBJECT("mask", "MASK", "What is to be drawn anew: white. From version 2.0 on.",
                       .flags = GRAFT_INPUT_OPTIONAL),
    NULL};
static const graft_output *const outputs[] = {&graft_model_patch_out, NULL};

static graft_status run(graft_call *c)
{
    return graft_model_patch_apply(c, STRENGTH, IMAGE, INPAINT_IMAGE, MASK);
}

GRAFT_NODE(z_image_fun_controlnet, .id = "ZImageFunControlnet", .title = "ZImageFunControlnet",
           .category = "advanced/loaders/zimage",
           .description = "Makes a Z-Image model follow a picture, draw what is missing of one, or "
                          "both, whatever its prompts are. Several can be chained; their effects "
                          "add up.");
