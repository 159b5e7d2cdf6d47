/* DualModelGuider: guidance whose two predictions come from two models. */
#include "nodes/sampling/sampler_inputs.h"

enum { MODEL, POSITIVE, CFG, MODEL_NEGATIVE, NEGATIVE };
static const graft_input *const inputs[] = {
    [MODEL] = IN_OBJECT("model", "MODEL", "The model that sees the positive prompt."),
    [POSITIVE] = IN_POSITIVE(),
    [CFG] = IN_FLOAT("cfg", 4.0, 0.0, 100.0, 0.1,
                     "How closely to follow the prompt. High values burn colours in; 1 leaves the "
                     "other model out and is twice as fast.",
                     .round = 0.01),
    [MODEL_NEGATIVE] = IN_OBJECT("model_negative", "MODEL",
                                 "The model whose prediction guidance leads away from; the first "
                                 "one where nothing is connected. Both are of one architecture.",
                                 .flags = GRAFT_INPUT_OPTIONAL),
    [NEGATIVE] = IN_OBJECT("negative", "CONDITIONING",
                           "What that model is told; nothing connected: no prompt.",
                           .flags = GRAFT_INPUT_OPTIONAL),
    NULL};
static const graft_output *const outputs[] = {
    OUT("GUIDER", "GUIDER", "Models, prompts and cfg, for SamplerCustomAdvanced."), NULL};

static graft_status run(graft_call *c)
{
    graft_cond *zeros = NULL;
    const graft_cond *negative = graft_arg_cond(c, NEGATIVE);
    if (!negative) {
        graft_status st = graft_cond_zero_out(graft_arg_cond(c, POSITIVE), &zeros, &c->err);
        if (st != GRAFT_OK) return st;
    }
    const graft_sampling known = {.model = graft_arg_model(c, MODEL),
                                  .negative_model = graft_arg_model(c, MODEL_NEGATIVE),
                                  .positive = graft_arg_cond(c, POSITIVE),
                                  .negative = negative ? negative : zeros,
                                  .cfg = graft_arg_f64(c, CFG)};
    graft_status st = graft_call_out_part(c, 0, "GUIDER", &known);
    graft_cond_release(zeros);
    return st;
}

GRAFT_NODE(dual_model_guider, .id = "DualModelGuider", .title = "Dual Model CFG Guider",
           .category = "sampling/custom_sampling/guiders", .flags = GRAFT_NODE_EXPERIMENTAL,
           .description = "Follows the positive prompt with one model and keeps away from what "
                          "another one predicts, such as Ideogram 4's that sees no prompt.");
