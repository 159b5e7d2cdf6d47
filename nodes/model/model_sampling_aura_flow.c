/* ModelSamplingAuraFlow: ModelSamplingSD3 by the name that workflows for Z-Image and Qwen-Image
 * have. */
#include "nodes/node.h"

enum { MODEL, SHIFT };
static const graft_input *const inputs[] = {
    [MODEL] = IN_OBJECT("model", "MODEL", "The diffusion model to change."),
    [SHIFT] = IN_FLOAT("shift", 1.73, 0.0, 100.0, 0.01,
                       "Above 1, more of the steps are at high noise, which suits large pictures. "
                       "Z-Image has 3, Qwen-Image is run with 3.1. Must not be 0."),
    NULL};
static const graft_output *const outputs[] = {
    OUT("MODEL", "MODEL", "The model as a flow with this shift."), NULL};

static graft_status run(graft_call *c)
{
    graft_model *model = NULL;
    graft_status st = graft_model_sampling_flow(graft_arg_model(c, MODEL), graft_arg_f64(c, SHIFT),
                                                false, &model, &c->err);
    return st != GRAFT_OK ? st : graft_call_out_model(c, 0, model);
}

GRAFT_NODE(model_sampling_aura_flow, .id = "ModelSamplingAuraFlow",
           .title = "ModelSamplingAuraFlow", .category = "advanced/model",
           .description =
               "Sets the shift of a flow's schedule, as ModelSamplingSD3 does, with another "
               "default. Z-Image is a flow with a shift of 3 already; other models become "
               "flows, which works only for those trained that way.");
