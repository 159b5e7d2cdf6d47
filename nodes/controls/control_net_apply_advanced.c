/* ControlNetApplyAdvanced: prompts that a ControlNet steers by a picture. */
#include "nodes/controls/controlnet.h"
#include "nodes/node.h"

enum { IMAGE = GRAFT_CONTROLNET_NET + 1, STRENGTH, START_PERCENT, END_PERCENT, VAE };
static const graft_input *const inputs[] = {
    [GRAFT_CONTROLNET_POSITIVE] = &graft_controlnet_positive,
    [GRAFT_CONTROLNET_NEGATIVE] = &graft_controlnet_negative,
    [GRAFT_CONTROLNET_NET] = &graft_controlnet_net,
    [IMAGE] = &graft_controlnet_image,
    [STRENGTH] = &graft_controlnet_strength,
    [START_PERCENT] = &graft_controlnet_start,
    [END_PERCENT] = &graft_controlnet_end,
    [VAE] = IN_OBJECT("vae", "VAE",
                      "The model's VAE. ControlNets for Stable Diffusion 3, FLUX.1 and Qwen-Image "
                      "need it, as they see the picture's latent; on others it has no effect.",
                      .flags = GRAFT_INPUT_OPTIONAL),
    NULL};
static const graft_output *const outputs[] = {&graft_controlnet_out_positive,
                                              &graft_controlnet_out_negative, NULL};

static graft_status run(graft_call *c)
{
    return graft_controlnet_apply(c, VAE, IMAGE, -1, STRENGTH);
}

GRAFT_NODE(control_net_apply_advanced, .id = "ControlNetApplyAdvanced", .title = "Apply ControlNet",
           .category = "conditioning/controlnet",
           .description = "Makes sampling with these prompts follow a picture. Several can be "
                          "chained; their effects add up.");
