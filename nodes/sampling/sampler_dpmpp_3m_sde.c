/* SamplerDPMPP_3M_SDE: dpmpp_3m_sde with its numbers. */
#include "nodes/sampling/sampler_options.h"

enum { ETA, S_NOISE, NOISE_DEVICE };
static const graft_input *const inputs[] = {
    [ETA] = IN_ETA(), [S_NOISE] = IN_S_NOISE(), [NOISE_DEVICE] = IN_NOISE_DEVICE(), NULL};
static const graft_output *const outputs[] = {OUT_SAMPLER(), NULL};

static graft_status run(graft_call *c)
{
    graft_sampling known = {.sampler = "dpmpp_3m_sde", .options = {USUAL_NUMBERS()}};
    known.options.eta = graft_arg_f64(c, ETA);
    known.options.s_noise = graft_arg_f64(c, S_NOISE);
    return graft_call_out_part(c, 0, "SAMPLER", &known);
}

GRAFT_NODE(sampler_dpmpp_3m_sde, .id = "SamplerDPMPP_3M_SDE", .title = "SamplerDPMPP_3M_SDE",
           .category = "sampling/custom_sampling/samplers",
           .description = "The sampler dpmpp_3m_sde with adjustable noise.");
