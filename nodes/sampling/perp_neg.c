/* PerpNeg: the same guidance as PerpNegGuider's, for any sampler. */
#include "nodes/sampling/perp_inputs.h"

enum { MODEL, EMPTY_CONDITIONING, NEG_SCALE };
static const graft_input *const inputs[] = {
    [MODEL] = IN_OBJECT("model", "MODEL", "The diffusion model to change."),
    [EMPTY_CONDITIONING] = IN_EMPTY_PROMPT(),
    [NEG_SCALE] = IN_NEG_SCALE(),
    NULL};
static const graft_output *const outputs[] = {
    OUT("MODEL", "MODEL", "The model with this guidance."), NULL};

static graft_status run(graft_call *c)
{
    graft_model *model = NULL;
    graft_status st =
        graft_model_perp_neg(graft_arg_model(c, MODEL), graft_arg_cond(c, EMPTY_CONDITIONING),
                             graft_arg_f64(c, NEG_SCALE), &model, &c->err);
    return st != GRAFT_OK ? st : graft_call_out_model(c, 0, model);
}

GRAFT_NODE(perp_neg, .id = "PerpNeg", .title = "Perp-Neg (DEPRECATED by PerpNegGuider)",
           .category = "_for_testing", .flags = GRAFT_NODE_EXPERIMENTAL | GRAFT_NODE_DEPRECATED,
           .description = "Keeps samplers away from the negative prompt only as far as that takes "
                          "nothing of the positive one away. PerpNegGuider does it for custom "
                          "samplers.");
