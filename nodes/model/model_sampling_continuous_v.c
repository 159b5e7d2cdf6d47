/* ModelSamplingContinuousV: a model that was trained on any sigma, and is told it as an angle. */
#include "nodes/node.h"

enum { MODEL, SAMPLING, SIGMA_MAX, SIGMA_MIN };
static const graft_input *const inputs[] = {
    [MODEL] = IN_OBJECT("model", "MODEL", "The diffusion model to change."),
    [SAMPLING] =
        IN_CHOICE("sampling", CHOICES("v_prediction"), "What the model predicts: a velocity."),
    [SIGMA_MAX] =
        IN_FLOAT("sigma_max", 500.0, 0.0, 1000.0, 0.001,
                 "The most noise that the model was trained on.", .flags = GRAFT_INPUT_EXACT),
    [SIGMA_MIN] = IN_FLOAT("sigma_min", 0.03, 0.0, 1000.0, 0.001,
                           "The least noise that it was trained on.", .flags = GRAFT_INPUT_EXACT),
    NULL};
static const graft_output *const outputs[] = {
    OUT("MODEL", "MODEL", "The model with this kind of sampling."), NULL};

static graft_status run(graft_call *c)
{
    graft_model *model = NULL;
    const graft_continuous_options options = {.kind = graft_arg_text(c, SAMPLING),
                                              .angle = true,
                                              .sigma_max = graft_arg_f64(c, SIGMA_MAX),
                                              .sigma_min = graft_arg_f64(c, SIGMA_MIN)};
    graft_status st =
        graft_model_sampling_continuous(graft_arg_model(c, MODEL), &options, &model, &c->err);
    return st != GRAFT_OK ? st : graft_call_out_model(c, 0, model);
}

GRAFT_NODE(model_sampling_continuous_v, .id = "ModelSamplingContinuousV",
           .title = "ModelSamplingContinuousV", .category = "advanced/model",
           .description = "Samples a model that predicts velocities and was trained on all angles "
                          "between picture and noise, not at numbered steps.");
