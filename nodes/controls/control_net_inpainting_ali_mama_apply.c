/* ControlNetInpaintingAliMamaApply: prompts by which a picture is completed. */
#include "nodes/controls/controlnet.h"
#include "nodes/node.h"

enum { VAE = GRAFT_CONTROLNET_NET + 1, IMAGE, MASK, STRENGTH, START_PERCENT, END_PERCENT };
static const graft_input *const inputs[] = {
    [GRAFT_CONTROLNET_POSITIVE] = &graft_controlnet_positive,
    [GRAFT_CONTROLNET_NEGATIVE] = &graft_controlnet_negative,
    [GRAFT_CONTROLNET_NET] = &graft_controlnet_net,
    [VAE] = IN_OBJECT("vae", "VAE",
                      "The model's VAE, by which ControlNets for Stable Diffusion 3, FLUX.1 and "
                      "Qwen-Image see the picture; on others it has no effect."),
    [IMAGE] = IN_OBJECT("image", "IMAGE",
                        "The picture to complete. It is scaled and cut to the size of the latent."),
    [MASK] =
        IN_OBJECT("mask", "MASK",
                  "What is to be drawn anew: white. On ControlNets that are not for inpainting "
                  "it has no effect."),
    [STRENGTH] = &graft_controlnet_strength,
    [START_PERCENT] = &graft_controlnet_start,
    [END_PERCENT] = &graft_controlnet_end,
    NULL};
static const graft_output *const outputs[] = {&graft_controlnet_out_positive,
                                              &graft_controlnet_out_negative, NULL};

static graft_status run(graft_call *c)
{
    return graft_controlnet_apply(c, VAE, IMAGE, MASK, STRENGTH);
}

GRAFT_NODE(control_net_inpainting_ali_mama_apply, .id = "ControlNetInpaintingAliMamaApply",
           .title = "ControlNetInpaintingAliMamaApply", .category = "conditioning/controlnet",
           .description =
               "Makes sampling with these prompts draw what is masked of a picture, by a "
               "ControlNet for inpainting: alimama-creative's for FLUX.1 and Stable "
               "Diffusion 3, InstantX's for Qwen-Image.");
