/* CFGGuider: a model that follows one prompt and keeps away from another. */
#include "nodes/sampling/sampler_inputs.h"

enum { MODEL, POSITIVE, NEGATIVE, CFG };
static const graft_input *const inputs[] = {
    [MODEL] = IN_OBJECT("model", "MODEL", "The diffusion model that removes the noise."),
    [POSITIVE] = IN_POSITIVE(),
    [NEGATIVE] = IN_NEGATIVE(),
    [CFG] = IN_CFG(),
    NULL};
static const graft_output *const outputs[] = {
    OUT("GUIDER", "GUIDER", "Model, prompts and cfg, for SamplerCustomAdvanced."), NULL};

static graft_status run(graft_call *c)
{
    const graft_sampling known = {.model = graft_arg_model(c, MODEL),
                                  .positive = graft_arg_cond(c, POSITIVE),
                                  .negative = graft_arg_cond(c, NEGATIVE),
                                  .cfg = graft_arg_f64(c, CFG)};
    return graft_call_out_part(c, 0, "GUIDER", &known);
}

GRAFT_NODE(cfg_guider, .id = "CFGGuider", .title = "CFGGuider",
           .category = "sampling/custom_sampling/guiders",
           .description = "Follows the positive prompt and keeps away from the negative one, as "
                          "KSampler does.");
