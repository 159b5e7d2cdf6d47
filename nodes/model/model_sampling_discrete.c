/* ModelSamplingDiscrete: what a model was trained to predict. */
#include "nodes/node.h"

enum { MODEL, SAMPLING, ZSNR };
static const graft_input *const inputs[] = {
    [MODEL] = IN_OBJECT("model", "MODEL", "The diffusion model to change."),
    [SAMPLING] = IN_CHOICE("sampling", CHOICES("eps", "v_prediction", "lcm", "x0", "img_to_img"),
                           "What the model predicts. Use what its author states: eps for most, "
                           "v_prediction for SD 2.1 768, lcm for LCM models. img_to_img is not "
                           "supported."),
    [ZSNR] = IN_BOOL("zsnr", false,
                     "Starts from pure noise. Turn it on for models trained with zero terminal "
                     "SNR, which then reach full black and white."),
    NULL};
static const graft_output *const outputs[] = {
    OUT("MODEL", "MODEL", "The model with this kind of sampling."), NULL};

static graft_status run(graft_call *c)
{
    graft_model *model = NULL;
    if (graft_arg_is(c, SAMPLING, "img_to_img"))
        return graft_call_fail(c, SAMPLING, GRAFT_E_UNSUPPORTED,
                               "sampling img_to_img is not supported");
    graft_status st = graft_model_sampling(graft_arg_model(c, MODEL), graft_arg_text(c, SAMPLING),
                                           graft_arg_bool(c, ZSNR), &model, &c->err);
    return st != GRAFT_OK ? st : graft_call_out_model(c, 0, model);
}

GRAFT_NODE(model_sampling_discrete, .id = "ModelSamplingDiscrete", .title = "ModelSamplingDiscrete",
           .category = "advanced/model",
           .description = "Tells the sampler what a model predicts, when that cannot be seen from "
                          "its file.");
