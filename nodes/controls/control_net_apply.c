/* ControlNetApply: the older form of ControlNetApplyAdvanced, for one prompt. */
#include "nodes/node.h"

enum { CONDITIONING, CONTROL_NET, IMAGE, STRENGTH };
static const graft_input *const inputs[] = {
    [CONDITIONING] = IN_OBJECT("conditioning", "CONDITIONING", "The prompt to steer."),
    [CONTROL_NET] = IN_OBJECT("control_net", "CONTROL_NET", "The ControlNet to follow."),
    [IMAGE] = IN_OBJECT("image", "IMAGE",
                        "The picture to follow, of the kind that the ControlNet was trained with."),
    [STRENGTH] =
        IN_FLOAT("strength", 1.0, 0.0, 10.0, 0.01, "How closely to follow it. 0 switches it off."),
    NULL};
static const graft_output *const outputs[] = {
    OUT("CONDITIONING", "CONDITIONING",
        "The prompt, steered. A negative prompt beside it is steered too, unless it has a "
        "ControlNet of its own."),
    NULL};

static graft_status run(graft_call *c)
{
    graft_cond *cond = NULL;
    const graft_control_options options = {.net = graft_arg_controlnet(c, CONTROL_NET),
                                           .hint = graft_arg_image(c, IMAGE),
                                           .strength = graft_arg_f64(c, STRENGTH),
                                           .start = 0.0,
                                           .end = 1.0,
                                           .everywhere = true};
    graft_status st =
        graft_cond_control(graft_arg_cond(c, CONDITIONING), NULL, &options, &cond, NULL, &c->err);
    return st != GRAFT_OK ? st : graft_call_out_cond(c, 0, cond);
}

GRAFT_NODE(control_net_apply, .id = "ControlNetApply", .title = "Apply ControlNet (OLD)",
           .category = "conditioning/controlnet", .flags = GRAFT_NODE_DEPRECATED,
           .description = "Makes sampling with this prompt follow a picture. Apply ControlNet "
                          "also has a range of steps and takes both prompts.");
