/* PerpNegGuider: guidance by what of the negative prompt is not in the positive one. */
#include "nodes/sampling/perp_inputs.h"

enum { MODEL, POSITIVE, NEGATIVE, EMPTY_CONDITIONING, CFG, NEG_SCALE };
static const graft_input *const inputs[] = {
    [MODEL] = IN_OBJECT("model", "MODEL", "The diffusion model that removes the noise."),
    [POSITIVE] = IN_POSITIVE(),
    [NEGATIVE] = IN_NEGATIVE(),
    [EMPTY_CONDITIONING] = IN_EMPTY_PROMPT(),
    [CFG] = IN_CFG(),
    [NEG_SCALE] = IN_NEG_SCALE(),
    NULL};
static const graft_output *const outputs[] = {
    OUT("GUIDER", "GUIDER", "Model, prompts and strengths, for SamplerCustomAdvanced."), NULL};

static graft_status run(graft_call *c)
{
    const graft_sampling known = {.model = graft_arg_model(c, MODEL),
                                  .positive = graft_arg_cond(c, POSITIVE),
                                  .negative = graft_arg_cond(c, NEGATIVE),
                                  .third = {graft_arg_cond(c, EMPTY_CONDITIONING),
                                            GRAFT_THIRD_PERPENDICULAR, graft_arg_f64(c, NEG_SCALE)},
                                  .cfg = graft_arg_f64(c, CFG)};
    return graft_call_out_part(c, 0, "GUIDER", &known);
}

GRAFT_NODE(perp_neg_guider, .id = "PerpNegGuider", .title = "PerpNegGuider",
           .category = "_for_testing", .flags = GRAFT_NODE_EXPERIMENTAL,
           .description =
               "Keeps away from the negative prompt only as far as that takes nothing "
               "of the positive one away (Perp-Neg); takes half as long again as CFGGuider.");
