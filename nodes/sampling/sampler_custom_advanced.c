/* SamplerCustomAdvanced: sampling put together from nodes. */
#include "nodes/sampling/custom_inputs.h"

enum { NOISE, GUIDER, SAMPLER, SIGMAS, LATENT_IMAGE };
static const graft_input *const inputs[] = {
    [NOISE] = IN_OBJECT("noise", "NOISE",
                        "What to begin with: RandomNoise, or DisableNoise when the latents carry "
                        "noise already."),
    [GUIDER] =
        IN_OBJECT("guider", "GUIDER", "The model and its prompts, from CFGGuider or BasicGuider."),
    [SAMPLER] = IN_SAMPLER(),
    [SIGMAS] = IN_SIGMAS(),
    [LATENT_IMAGE] = IN_START(),
    NULL};
static const graft_output *const outputs[] = {OUT_SAMPLED(), OUT_DENOISED(), NULL};

static graft_status run(graft_call *c)
{
    const graft_sampling *noise = graft_arg_part(c, NOISE);
    graft_sampling s = *graft_arg_part(c, GUIDER);
    s.add_noise = noise->add_noise;
    s.seed = noise->seed;
    s.sampler = graft_arg_part(c, SAMPLER)->sampler;
    s.options = graft_arg_part(c, SAMPLER)->options;
    s.sigmas = graft_arg_sigmas(c, SIGMAS);
    return graft_call_sample(c, &s, graft_arg_latent(c, LATENT_IMAGE));
}

GRAFT_NODE(sampler_custom_advanced, .id = "SamplerCustomAdvanced", .title = "SamplerCustomAdvanced",
           .category = "sampling/custom_sampling",
           .description = "A sampler whose noise, guidance, method and steps each come from a node "
                          "of their own.");
