/* KSamplerSelect: a sampling method for the custom samplers. */
#include "nodes/sampling/sampler_inputs.h"

enum { SAMPLER_NAME };
static const graft_input *const inputs[] = {[SAMPLER_NAME] = IN_SAMPLER_NAME(), NULL};
static const graft_output *const outputs[] = {
    OUT("SAMPLER", "SAMPLER", "The method, for a custom sampler."), NULL};

static graft_status run(graft_call *c)
{
    for (const char *const *name = graft_sampler_names(); *name; name++) {
        const graft_sampling known = {.sampler = *name};
        if (graft_arg_is(c, SAMPLER_NAME, *name))
            return graft_call_out_part(c, 0, "SAMPLER", &known);
    }
    return graft_call_fail(c, SAMPLER_NAME, GRAFT_E_ARG, "unknown sampler %s",
                           graft_arg_text(c, SAMPLER_NAME));
}

QUERY_SAMPLERS()

GRAFT_NODE(ksampler_select, .id = "KSamplerSelect", .title = "KSamplerSelect",
           .category = "sampling/custom_sampling/samplers",
           .description =
               "Chooses the method by which SamplerCustom and SamplerCustomAdvanced step "
               "from noise to picture.",
           .query = query);
