/* SamplerLMS: lms with its order. */
#include "nodes/sampling/sampler_options.h"

enum { ORDER };
static const graft_input *const inputs[] = {
    [ORDER] = IN_INT(
        "order", 4, 1, 100, 0,
        "How many steps it looks back on, from 1, which is euler, to 4. More are not supported."),
    NULL};
static const graft_output *const outputs[] = {OUT_SAMPLER(), NULL};

static graft_status run(graft_call *c)
{
    graft_sampling known = {.sampler = "lms", .options = {USUAL_NUMBERS()}};
    known.options.order = graft_arg_i64(c, ORDER);
    return graft_call_out_part(c, 0, "SAMPLER", &known);
}

GRAFT_NODE(sampler_lms, .id = "SamplerLMS", .title = "SamplerLMS",
           .category = "sampling/custom_sampling/samplers",
           .description = "The sampler lms with an adjustable order.");
