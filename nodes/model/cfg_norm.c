/* CFGNorm: guidance that makes no place stronger than the prompt's prediction. */
#include "nodes/node.h"

enum { MODEL, STRENGTH };
static const graft_input *const inputs[] = {
    [MODEL] = IN_OBJECT("model", "MODEL", "The diffusion model to change."),
    [STRENGTH] = IN_FLOAT("strength", 1.0, 0.0, 100.0, 0.01, "What the result is multiplied by."),
    NULL};
static const graft_output *const outputs[] = {
    OUT("patched_model", "MODEL", "The model with this guidance."), NULL};

static graft_status run(graft_call *c)
{
    graft_model *model = NULL;
    const graft_cfg_change change = {.kind = GRAFT_CFG_NORMED,
                                     .strength = graft_arg_f64(c, STRENGTH)};
    graft_status st = graft_model_change_cfg(graft_arg_model(c, MODEL), &change, &model, &c->err);
    return st != GRAFT_OK ? st : graft_call_out_model(c, 0, model);
}

GRAFT_NODE(cfg_norm, .id = "CFGNorm", .title = "CFGNorm", .category = "advanced/guidance",
           .flags = GRAFT_NODE_EXPERIMENTAL,
           .description =
               "Keeps a high cfg from burning colours in: at no place is the guided prediction "
               "stronger than that of the prompt.");
