/* BasicGuider: a model that follows one prompt. */
#include "nodes/node.h"

enum { MODEL, CONDITIONING };
static const graft_input *const inputs[] = {
    [MODEL] = IN_OBJECT("model", "MODEL", "The diffusion model that removes the noise."),
    [CONDITIONING] = IN_OBJECT("conditioning", "CONDITIONING", "What the picture should show."),
    NULL};
static const graft_output *const outputs[] = {
    OUT("GUIDER", "GUIDER", "Model and prompt, for SamplerCustomAdvanced."), NULL};

static graft_status run(graft_call *c)
{
    const graft_sampling known = {.model = graft_arg_model(c, MODEL),
                                  .positive = graft_arg_cond(c, CONDITIONING),
                                  .cfg = 1.0};
    return graft_call_out_part(c, 0, "GUIDER", &known);
}

GRAFT_NODE(basic_guider, .id = "BasicGuider", .title = "BasicGuider",
           .category = "sampling/custom_sampling/guiders",
           .description =
               "Follows one prompt without a negative one, as a cfg of 1 does: for turbo "
               "and LCM models, and twice as fast as others.");
