/* StyleModelApply: pictures beside the words of a prompt. */
#include "nodes/node.h"

enum { CONDITIONING, STYLE_MODEL, CLIP_VISION_OUTPUT, STRENGTH, STRENGTH_TYPE };
static const graft_input *const inputs[] = {
    [CONDITIONING] = IN_OBJECT("conditioning", "CONDITIONING", "The prompt, for FLUX.1."),
    [STYLE_MODEL] = IN_OBJECT("style_model", "STYLE_MODEL", "FLUX.1 Redux."),
    [CLIP_VISION_OUTPUT] =
        IN_OBJECT("clip_vision_output", "CLIP_VISION_OUTPUT", "What SigLIP saw in the pictures."),
    [STRENGTH] = IN_FLOAT("strength", 1.0, 0.0, 10.0, 0.001,
                          "How much the pictures count beside the prompt's words."),
    [STRENGTH_TYPE] = IN_CHOICE("strength_type", CHOICES("multiply", "attn_bias"),
                                "multiply: the pictures' tokens times the strength. attn_bias "
                                "works at strength 1 only, where both do the same."),
    NULL};
static const graft_output *const outputs[] = {
    OUT("CONDITIONING", "CONDITIONING", "The prompt with the pictures behind its words."), NULL};

static graft_status run(graft_call *c)
{
    const double strength = graft_arg_f64(c, STRENGTH);
    graft_cond *cond = NULL;
    if (strength != 1.0 && graft_arg_is(c, STRENGTH_TYPE, "attn_bias"))
        return graft_call_fail(c, STRENGTH_TYPE, GRAFT_E_UNSUPPORTED,
                               "attn_bias with a strength of %g weighs attention to the pictures' "
                               "tokens, which is not supported; multiply scales the tokens instead",
                               strength);
    graft_status st = graft_style_apply(
        graft_arg_style(c, STYLE_MODEL), graft_arg_cond(c, CONDITIONING),
        graft_arg_vision_output(c, CLIP_VISION_OUTPUT), strength, &c->task, &cond, &c->err);
    return st != GRAFT_OK ? st : graft_call_out_cond(c, 0, cond);
}

GRAFT_NODE(style_model_apply, .id = "StyleModelApply", .title = "Apply Style Model",
           .category = "conditioning/style_model",
           .description = "Puts what a style model makes of pictures behind a prompt's words. An "
                          "empty prompt gives variations of the picture.");
