/* DualCFGGuider: guidance by two prompts, each with a strength of its own. */
#include "nodes/sampling/sampler_inputs.h"

enum { MODEL, COND1, COND2, NEGATIVE, CFG_CONDS, CFG_COND2_NEGATIVE, STYLE };
static const graft_input *const inputs[] = {
    [MODEL] = IN_OBJECT("model", "MODEL", "The diffusion model that removes the noise."),
    [COND1] = IN_OBJECT("cond1", "CONDITIONING", "What the picture should show in the end."),
    [COND2] = IN_OBJECT("cond2", "CONDITIONING",
                        "What the first prompt is seen from, such as that without its last words, "
                        "or a picture without a prompt."),
    [NEGATIVE] = IN_NEGATIVE(),
    [CFG_CONDS] = IN_FLOAT("cfg_conds", 8.0, 0.0, 100.0, 0.1,
                           "How closely to follow what cond1 says beyond cond2.", .round = 0.01),
    [CFG_COND2_NEGATIVE] = IN_FLOAT(
        "cfg_cond2_negative", 8.0, 0.0, 100.0, 0.1,
        "How closely to follow what cond2 says beyond the negative prompt.", .round = 0.01),
    [STYLE] = IN_CHOICE("style", CHOICES("regular", "nested"),
                        "regular adds the two; nested leads away from the negative prompt to what "
                        "the other two give together, so that both strengths multiply."),
    NULL};
static const graft_output *const outputs[] = {
    OUT("GUIDER", "GUIDER", "Model, prompts and strengths, for SamplerCustomAdvanced."), NULL};

static graft_status run(graft_call *c)
{
    bool nested = graft_arg_is(c, STYLE, "nested");
    const graft_sampling known = {.model = graft_arg_model(c, MODEL),
                                  .positive = graft_arg_cond(c, COND1),
                                  .negative = graft_arg_cond(c, NEGATIVE),
                                  .third = {graft_arg_cond(c, COND2),
                                            nested ? GRAFT_THIRD_NESTED : GRAFT_THIRD_DUAL,
                                            graft_arg_f64(c, CFG_COND2_NEGATIVE)},
                                  .cfg = graft_arg_f64(c, CFG_CONDS)};
    return graft_call_out_part(c, 0, "GUIDER", &known);
}

GRAFT_NODE(dual_cfg_guider, .id = "DualCFGGuider", .title = "DualCFGGuider",
           .category = "sampling/custom_sampling/guiders",
           .description =
               "Follows two prompts with a strength for each; takes half as long again as "
               "CFGGuider.");
