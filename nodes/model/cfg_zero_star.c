/* CFGZeroStar: guidance away from a negative prediction of the right length. */
#include "nodes/node.h"

enum { MODEL };
static const graft_input *const inputs[] = {
    [MODEL] = IN_OBJECT("model", "MODEL", "The diffusion model to change."), NULL};
static const graft_output *const outputs[] = {
    OUT("patched_model", "MODEL", "The model with this guidance."), NULL};

static graft_status run(graft_call *c)
{
    graft_model *model = NULL;
    const graft_cfg_change change = {.kind = GRAFT_CFG_ZERO_STAR};
    graft_status st = graft_model_change_cfg(graft_arg_model(c, MODEL), &change, &model, &c->err);
    return st != GRAFT_OK ? st : graft_call_out_model(c, 0, model);
}

GRAFT_NODE(
    cfg_zero_star, .id = "CFGZeroStar", .title = "CFGZeroStar", .category = "advanced/guidance",
    .description = "CFG-Zero*: scales the negative prediction to fit the positive one best before "
                   "guidance leads away from it. Made for flows, such as Stable Diffusion 3.");
