/* ModelSamplingSD3: how much of a flow's schedule is spent on noise. */
#include "nodes/node.h"

enum { MODEL, SHIFT };
static const graft_input *const inputs[] = {
    [MODEL] = IN_OBJECT("model", "MODEL", "The diffusion model to change."),
    [SHIFT] = IN_FLOAT("shift", 3.0, 0.0, 100.0, 0.01,
                       "Above 1, more of the steps are at high noise, which suits large pictures. "
                       "SD 3 has 3 for 1024x1024. Must not be 0."),
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

GRAFT_NODE(
    model_sampling_sd3, .id = "ModelSamplingSD3", .title = "ModelSamplingSD3",
    .category = "advanced/model",
    .description =
        "Sets the shift of a flow's schedule. Models of Stable Diffusion 3 are flows with a shift "
        "of 3 already; other models become flows, which works only for those trained that way.");
