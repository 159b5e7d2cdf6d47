/* SamplerEulerAncestral: euler_ancestral with its numbers. */
#include "nodes/sampling/sampler_options.h"

enum { ETA, S_NOISE };
static const graft_input *const inputs[] = {[ETA] = IN_ETA(), [S_NOISE] = IN_S_NOISE(), NULL};
static const graft_output *const outputs[] = {OUT_SAMPLER(), NULL};

static graft_status run(graft_call *c)
{
    graft_sampling known = {.sampler = "euler_ancestral", .options = {USUAL_NUMBERS()}};
    known.options.eta = graft_arg_f64(c, ETA);
    known.options.s_noise = graft_arg_f64(c, S_NOISE);
    return graft_call_out_part(c, 0, "SAMPLER", &known);
}

GRAFT_NODE(sampler_euler_ancestral, .id = "SamplerEulerAncestral", .title = "SamplerEulerAncestral",
           .category = "sampling/custom_sampling/samplers",
           .description = "The sampler euler_ancestral with adjustable noise.");
