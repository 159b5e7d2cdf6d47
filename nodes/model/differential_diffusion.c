/* DifferentialDiffusion: masks whose grey says how far a picture is to change. */
#include "nodes/node.h"

enum { MODEL, STRENGTH };
static const graft_input *const inputs[] = {
    [MODEL] = IN_OBJECT("model", "MODEL", "The diffusion model to change."),
    [STRENGTH] = IN_FLOAT("strength", 1.0, 0.0, 1.0, 0.01,
                          "1: a place changes from the step that its grey stands for, white from "
                          "the first. 0: as without this node.",
                          .flags = GRAFT_INPUT_OPTIONAL),
    NULL};
static const graft_output *const outputs[] = {
    OUT("MODEL", "MODEL", "The model that treats noise masks this way."), NULL};

static graft_status run(graft_call *c)
{
    graft_model *model = NULL;
    graft_status st = graft_model_differential(graft_arg_model(c, MODEL),
                                               graft_arg_f64(c, STRENGTH), &model, &c->err);
    return st != GRAFT_OK ? st : graft_call_out_model(c, 0, model);
}

GRAFT_NODE(differential_diffusion, .id = "DifferentialDiffusion", .title = "Differential Diffusion",
           .category = "_for_testing",
           .description = "Soft inpainting: the darker a place of the latent's noise mask is, the "
                          "later it begins to change, and the less it changes.");
