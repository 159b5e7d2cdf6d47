/* RescaleCFG: guidance that does not overexpose. */
#include "nodes/node.h"

enum { MODEL, MULTIPLIER };
static const graft_input *const inputs[] = {
    [MODEL] = IN_OBJECT("model", "MODEL", "The diffusion model to change."),
    [MULTIPLIER] = IN_FLOAT("multiplier", 0.7, 0.0, 1.0, 0.01,
                            "How much of the contrast that guidance adds is taken back: 0 nothing, "
                            "1 all of it."),
    NULL};
static const graft_output *const outputs[] = {
    OUT("MODEL", "MODEL", "The model with rescaled guidance."), NULL};

static graft_status run(graft_call *c)
{
    graft_model *model = NULL;
    graft_status st = graft_model_rescale_cfg(graft_arg_model(c, MODEL),
                                              graft_arg_f64(c, MULTIPLIER), &model, &c->err);
    return st != GRAFT_OK ? st : graft_call_out_model(c, 0, model);
}

GRAFT_NODE(rescale_cfg, .id = "RescaleCFG", .title = "RescaleCFG", .category = "advanced/model",
           .description = "Keeps a high cfg from burning colours in, mainly with v_prediction "
                          "models.");
