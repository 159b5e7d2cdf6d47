/* SamplerEulerAncestralCFGPP: euler_ancestral_cfg_pp with its numbers. */
#include "nodes/sampling/sampler_options.h"

enum { ETA, S_NOISE };
static const graft_input *const inputs[] = {
    [ETA] = IN_FLOAT("eta", 1.0, 0.0, 1.0, 0.01,
                     "Share of the noise that each step takes away and adds anew: 1 is usual, 0 "
                     "adds none, so that the same start always ends the same.",
                     .flags = GRAFT_INPUT_EXACT),
    [S_NOISE] = IN_FLOAT("s_noise", 1.0, 0.0, 10.0, 0.01,
                         "Factor of the noise that is added; a little above 1 gives more detail, "
                         "much more leaves noise.",
                         .flags = GRAFT_INPUT_EXACT),
    NULL};
static const graft_output *const outputs[] = {OUT_SAMPLER(), NULL};

static graft_status run(graft_call *c)
{
    graft_sampling known = {.sampler = "euler_ancestral_cfg_pp", .options = {USUAL_NUMBERS()}};
    known.options.eta = graft_arg_f64(c, ETA);
    known.options.s_noise = graft_arg_f64(c, S_NOISE);
    return graft_call_out_part(c, 0, "SAMPLER", &known);
}

GRAFT_NODE(sampler_euler_ancestral_cfgpp, .id = "SamplerEulerAncestralCFGPP",
           .title = "SamplerEulerAncestralCFG++", .category = "sampling/custom_sampling/samplers",
           .description = "The sampler euler_ancestral_cfg_pp with adjustable noise; it wants a "
                          "low cfg, 0.5 to 2.");
