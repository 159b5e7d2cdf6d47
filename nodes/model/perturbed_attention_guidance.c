/* PerturbedAttentionGuidance: guidance away from a picture whose parts do not see each other. */
#include "nodes/node.h"

enum { MODEL, SCALE };
static const graft_input *const inputs[] = {
    [MODEL] = IN_OBJECT("model", "MODEL", "The diffusion model to change."),
    [SCALE] = IN_FLOAT("scale", 3.0, 0.0, 100.0, 0.01,
                       "How far it leads away from the picture without structure: 0 nothing; with "
                       "much of it a lower cfg is enough."),
    NULL};
static const graft_output *const outputs[] = {
    OUT("MODEL", "MODEL", "The model with this guidance."), NULL};

static graft_status run(graft_call *c)
{
    graft_model *model = NULL;
    graft_status st = graft_model_perturbed_attention(graft_arg_model(c, MODEL),
                                                      graft_arg_f64(c, SCALE), &model, &c->err);
    return st != GRAFT_OK ? st : graft_call_out_model(c, 0, model);
}

GRAFT_NODE(perturbed_attention_guidance, .id = "PerturbedAttentionGuidance",
           .title = "PerturbedAttentionGuidance", .category = "model_patches/unet",
           .description =
               "Gives pictures more structure: guidance away from a prediction in which the middle "
               "of the UNet does not see how parts relate, on top of cfg or in place of it.");
