/* TCFG: the negative prediction without what leads it aside. */
#include "nodes/node.h"

enum { MODEL };
static const graft_input *const inputs[] = {
    [MODEL] = IN_OBJECT("model", "MODEL", "The diffusion model to change."), NULL};
static const graft_output *const outputs[] = {
    OUT("patched_model", "MODEL", "The model with this guidance."), NULL};

static graft_status run(graft_call *c)
{
    graft_model *model = NULL;
    const graft_cfg_change change = {.kind = GRAFT_CFG_TANGENTIAL};
    graft_status st = graft_model_change_cfg(graft_arg_model(c, MODEL), &change, &model, &c->err);
    return st != GRAFT_OK ? st : graft_call_out_model(c, 0, model);
}

GRAFT_NODE(tcfg, .id = "TCFG", .title = "Tangential Damping CFG", .category = "advanced/guidance",
           .description =
               "Refines guidance: of the negative prediction only what it has in common with the "
               "positive one is left, for shapes that fit together better.");
