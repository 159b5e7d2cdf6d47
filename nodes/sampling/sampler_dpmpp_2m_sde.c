/* SamplerDPMPP_2M_SDE: dpmpp_2m_sde with its numbers. */
#include "nodes/sampling/sampler_options.h"

enum { SOLVER_TYPE, ETA, S_NOISE, NOISE_DEVICE };
static const graft_input *const inputs[] = {
    [SOLVER_TYPE] = IN_CHOICE(
        "solver_type", CHOICES("midpoint", "heun"),
        "How a step uses the one before: midpoint is dpmpp_2m_sde, heun is dpmpp_2m_sde_heun."),
    [ETA] = IN_ETA(),
    [S_NOISE] = IN_S_NOISE(),
    [NOISE_DEVICE] = IN_NOISE_DEVICE(),
    NULL};
static const graft_output *const outputs[] = {OUT_SAMPLER(), NULL};

static graft_status run(graft_call *c)
{
    graft_sampling known = {.sampler = graft_arg_is(c, SOLVER_TYPE, "heun") ? "dpmpp_2m_sde_heun"
                                                                            : "dpmpp_2m_sde",
                            .options = {USUAL_NUMBERS()}};
    known.options.eta = graft_arg_f64(c, ETA);
    known.options.s_noise = graft_arg_f64(c, S_NOISE);
    return graft_call_out_part(c, 0, "SAMPLER", &known);
}

GRAFT_NODE(sampler_dpmpp_2m_sde, .id = "SamplerDPMPP_2M_SDE", .title = "SamplerDPMPP_2M_SDE",
           .category = "sampling/custom_sampling/samplers",
           .description = "The samplers dpmpp_2m_sde and dpmpp_2m_sde_heun with adjustable noise.");
