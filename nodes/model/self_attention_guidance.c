/* SelfAttentionGuidance: guidance away from a picture that is blurred where the network looks. */
#include "nodes/node.h"

enum { MODEL, SCALE, BLUR_SIGMA };
static const graft_input *const inputs[] = {
    [MODEL] = IN_OBJECT("model", "MODEL", "The diffusion model to change."),
    [SCALE] = IN_FLOAT("scale", 0.5, -2.0, 5.0, 0.01,
                       "How far it leads away from the blurred picture: 0 nothing."),
    [BLUR_SIGMA] = IN_FLOAT("blur_sigma", 2.0, 0.0, 10.0, 0.1,
                            "How much the picture is blurred, in cells of the latent (8 pixels)."),
    NULL};
static const graft_output *const outputs[] = {
    OUT("MODEL", "MODEL", "The model with this guidance."), NULL};

static graft_status run(graft_call *c)
{
    graft_model *model = NULL;
    graft_status st = graft_model_self_attention(graft_arg_model(c, MODEL), graft_arg_f64(c, SCALE),
                                                 graft_arg_f64(c, BLUR_SIGMA), &model, &c->err);
    return st != GRAFT_OK ? st : graft_call_out_model(c, 0, model);
}

GRAFT_NODE(self_attention_guidance, .id = "SelfAttentionGuidance",
           .title = "Self-Attention Guidance", .category = "_for_testing",
           .flags = GRAFT_NODE_EXPERIMENTAL,
           .description =
               "Gives pictures finer detail: what the network looks at is blurred, predicted once "
               "more, and led away from. The negative prompt is computed twice for that.");
