/* SamplerDPMPP_SDE: dpmpp_sde with its numbers. */
#include "nodes/sampling/sampler_options.h"

enum { ETA, S_NOISE, R, NOISE_DEVICE };
static const graft_input *const inputs[] = {
    [ETA] = IN_ETA(),
    [S_NOISE] = IN_S_NOISE(),
    [R] = IN_FLOAT(
        "r", 0.5, 0.0, 100.0, 0.01,
        "Where in a step the model is asked a second time: 0.5 is the middle; 0 has no meaning.",
        .flags = GRAFT_INPUT_EXACT),
    [NOISE_DEVICE] = IN_NOISE_DEVICE(),
    NULL};
static const graft_output *const outputs[] = {OUT_SAMPLER(), NULL};

static graft_status run(graft_call *c)
{
    graft_sampling known = {.sampler = "dpmpp_sde", .options = {USUAL_NUMBERS()}};
    known.options.eta = graft_arg_f64(c, ETA);
    known.options.s_noise = graft_arg_f64(c, S_NOISE);
    known.options.r = graft_arg_f64(c, R);
    return graft_call_out_part(c, 0, "SAMPLER", &known);
}

GRAFT_NODE(sampler_dpmpp_sde, .id = "SamplerDPMPP_SDE", .title = "SamplerDPMPP_SDE",
           .category = "sampling/custom_sampling/samplers",
           .description = "The sampler dpmpp_sde with adjustable noise.");
