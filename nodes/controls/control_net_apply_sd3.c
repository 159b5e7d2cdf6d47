/* ControlNetApplySD3: ControlNetApplyAdvanced with a VAE that must be there. */
#include "nodes/controls/controlnet.h"
#include "nodes/node.h"

enum { VAE = GRAFT_CONTROLNET_NET + 1, IMAGE, STRENGTH, START_PERCENT, END_PERCENT };
static const graft_input *const inputs[] = {
    [GRAFT_CONTROLNET_POSITIVE] = &graft_controlnet_positive,
    [GRAFT_CONTROLNET_NEGATIVE] = &graft_controlnet_negative,
    [GRAFT_CONTROLNET_NET] = &graft_controlnet_net,
    [VAE] = IN_OBJECT("vae", "VAE",
                      "The model's VAE, by which ControlNets for Stable Diffusion 3, FLUX.1 and "
                      "Qwen-Image see the picture; on others it has no effect."),
    [IMAGE] = &graft_controlnet_image,
    [STRENGTH] = &graft_controlnet_strength,
    [START_PERCENT] = &graft_controlnet_start,
    [END_PERCENT] = &graft_controlnet_end,
    NULL};
static const graft_output *const outputs[] = {&graft_controlnet_out_positive,
                                              &graft_controlnet_out_negative, NULL};

static graft_status run(graft_call *c)
{
    return graft_controlnet_apply(c, VAE, IMAGE, -1, STRENGTH);
}

GRAFT_NODE(control_net_apply_sd3, .id = "ControlNetApplySD3", .title = "Apply Controlnet with VAE",
           .category = "conditioning/controlnet", .flags = GRAFT_NODE_DEPRECATED,
           .description = "Makes sampling with these prompts follow a picture. Apply ControlNet "
                          "does the same, with the VAE as its last input.");
