/* RenormCFG: guidance that makes nothing stronger than the prompt's prediction. */
#include "nodes/node.h"

enum { MODEL, CFG_TRUNC, RENORM_CFG };
static const graft_input *const inputs[] = {
    [MODEL] = IN_OBJECT("model", "MODEL", "The diffusion model to change."),
    [CFG_TRUNC] = IN_FLOAT("cfg_trunc", 100.0, 0.0, 100.0, 0.01,
                           "Guidance counts below this sigma only; above it the prompt alone "
                           "does."),
    [RENORM_CFG] = IN_FLOAT("renorm_cfg", 1.0, 0.0, 100.0, 0.01,
                            "How many times as strong as the prompt's prediction the guided one "
                            "may be; 0: any."),
    NULL};
static const graft_output *const outputs[] = {
    OUT("MODEL", "MODEL", "The model with this guidance."), NULL};

static graft_status run(graft_call *c)
{
    graft_model *model = NULL;
    const graft_cfg_change change = {.kind = GRAFT_CFG_RENORMED,
                                     .strength = graft_arg_f64(c, RENORM_CFG),
                                     .limit = graft_arg_f64(c, CFG_TRUNC)};
    graft_status st = graft_model_change_cfg(graft_arg_model(c, MODEL), &change, &model, &c->err);
    return st != GRAFT_OK ? st : graft_call_out_model(c, 0, model);
}

GRAFT_NODE(renorm_cfg, .id = "RenormCFG", .title = "RenormCFG", .category = "advanced/model",
           .description =
               "Keeps a high cfg from burning colours in: the guided prediction is made no "
               "stronger than that of the prompt, as Lumina-Image 2.0 is sampled.");
