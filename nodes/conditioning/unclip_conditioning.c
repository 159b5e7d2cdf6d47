/* unCLIPConditioning: pictures that an unCLIP model is told of with a prompt. */
#include "nodes/node.h"

enum { CONDITIONING, CLIP_VISION_OUTPUT, STRENGTH, NOISE_AUGMENTATION };
static const graft_input *const inputs[] = {
    [CONDITIONING] = IN_OBJECT("conditioning", "CONDITIONING", "The prompt to change."),
    [CLIP_VISION_OUTPUT] = IN_OBJECT("clip_vision_output", "CLIP_VISION_OUTPUT",
                                     "What the checkpoint's CLIP saw in the pictures."),
    [STRENGTH] = IN_FLOAT("strength", 1.0, -10.0, 10.0, 0.01,
                          "How much they count. Strengths of several add up: to about 1 at best."),
    [NOISE_AUGMENTATION] = IN_FLOAT("noise_augmentation", 0.0, 0.0, 1.0, 0.01,
                                    "Noise on what CLIP saw: the more, the freer the result."),
    NULL};
static const graft_output *const outputs[] = {
    OUT("CONDITIONING", "CONDITIONING", "The prompt with these pictures."), NULL};

static graft_status run(graft_call *c)
{
    graft_cond *prompt = graft_arg_cond(c, CONDITIONING), *cond = NULL;
    const double strength = graft_arg_f64(c, STRENGTH);
    if (strength == 0) return graft_call_out_cond(c, 0, graft_cond_retain(prompt));
    graft_status st =
        graft_cond_show(prompt, graft_arg_vision_output(c, CLIP_VISION_OUTPUT), strength,
                        graft_arg_f64(c, NOISE_AUGMENTATION), &cond, &c->err);
    return st != GRAFT_OK ? st : graft_call_out_cond(c, 0, cond);
}

GRAFT_NODE(unclip_conditioning, .id = "unCLIPConditioning", .title = "unCLIPConditioning",
           .category = "conditioning",
           .description = "Tells an unCLIP model, such as Stable Diffusion 2.1 unCLIP, of pictures "
                          "that the result is to be like. Other models do not look at them.");
