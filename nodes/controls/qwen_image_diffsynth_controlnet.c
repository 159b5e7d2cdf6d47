/* QwenImageDiffsynthControlnet: a model that follows a picture. */
#include "nodes/controls/model_patch.h"
#include "nodes/node.h"

enum { IMAGE = GRAFT_MODEL_PATCH_VAE + 1, STRENGTH, MASK };
static const graft_input *const inputs[] = {
    [GRAFT_MODEL_PATCH_MODEL] = &graft_model_patch_model,
    [GRAFT_MODEL_PATCH_PATCH] = &graft_model_patch_patch,
    [GRAFT_MODEL_PATCH_VAE] = &graft_model_patch_vae,
    [IMAGE] =
        IN_OBJECT("image", "IMAGE",
                  "The picture to follow, of a kind that the ControlNet was trained with: "
                  "outlines, depth, a pose; with the inpaint patch the picture to complete. It "
                  "is scaled and cut to the size of the latent."),
    [STRENGTH] = &graft_model_patch_strength,
    [MASK] =
        IN_OBJECT("mask", "MASK",
                  "What is to be drawn anew: white. For Qwen-Image's inpaint patch, which needs "
                  "it, and Z-Image's ControlNets from version 2.0 on.",
                  .flags = GRAFT_INPUT_OPTIONAL),
    NULL};
static const graft_output *const outputs[] = {&graft_model_patch_out, NULL};

static graft_status run(graft_call *c)
{
    return graft_model_patch_apply(c, STRENGTH, IMAGE, -1, MASK);
}

GRAFT_NODE(qwen_image_diffsynth_controlnet, .id = "QwenImageDiffsynthControlnet",
           .title = "QwenImageDiffsynthControlnet", .category = "advanced/loaders/qwen",
           .description =
               "Makes a Qwen-Image or Z-Image model follow a picture, or draw what is masked of "
               "one, whatever its prompts are. Several can be chained; their effects add up.");
