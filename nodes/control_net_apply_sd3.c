/* ControlNetApplySD3: ControlNetApplyAdvanced with a VAE that must be there. */
#include "nodes/controlnet.h"
#include "nodes/node.h"

enum { POSITIVE, NEGATIVE, CONTROL_NET, VAE, IMAGE, STRENGTH, START_PERCENT, END_PERCENT };
static const graft_input *const inputs[] = {
    [POSITIVE] = IN_OBJECT("positive", "CONDITIONING", "What the picture should show."),
    [NEGATIVE] = IN_OBJECT("negative", "CONDITIONING", "What it should not show."),
    [CONTROL_NET] = IN_OBJECT("control_net", "CONTROL_NET", "The ControlNet to follow."),
    [VAE] = IN_OBJECT("vae", "VAE",
                      "The model's VAE, by which ControlNets for Stable Diffusion 3 and FLUX.1 see "
                      "the picture; on others it has no effect."),
    [IMAGE] = IN_OBJECT("image", "IMAGE",
                        "The picture to follow, of the kind that the ControlNet was trained with: "
                        "outlines, depth, a pose. It is scaled and cut to the size of the latent."),
    [STRENGTH] =
        IN_FLOAT("strength", 1.0, 0.0, 10.0, 0.01,
                 "How closely to follow it. 0 switches it off. Changing it recompiles nothing."),
    [START_PERCENT] = IN_FLOAT("start_percent", 0.0, 0.0, 1.0, 0.001,
                               "Where in sampling it begins to count: 0 is the first step."),
    [END_PERCENT] = IN_FLOAT("end_percent", 1.0, 0.0, 1.0, 0.001,
                             "Where it stops counting: 0.5 leaves the second half free."),
    NULL};
static const graft_output *const outputs[] = {
    OUT("positive", "CONDITIONING", "The positive prompt, steered."),
    OUT("negative", "CONDITIONING", "The negative prompt, steered."), NULL};

static graft_status run(graft_call *c)
{
    const graft_control_options options = {.net = graft_arg_controlnet(c, CONTROL_NET),
                                           .hint = graft_arg_image(c, IMAGE),
                                           .vae = graft_arg_vae(c, VAE),
                                           .strength = graft_arg_f64(c, STRENGTH),
                                           .start = graft_arg_f64(c, START_PERCENT),
                                           .end = graft_arg_f64(c, END_PERCENT)};
    return graft_controlnet_apply(c, POSITIVE, NEGATIVE, &options);
}

GRAFT_NODE(control_net_apply_sd3, .id = "ControlNetApplySD3", .title = "Apply Controlnet with VAE",
           .category = "conditioning/controlnet", .flags = GRAFT_NODE_DEPRECATED,
           .description = "Makes sampling with these prompts follow a picture. Apply ControlNet "
                          "does the same, with the VAE as its last input.");
