/* SamplerCustomAdvanced: sampling put together from nodes. */
#include "nodes/node.h"
#include "nodes/part.h"

enum { NOISE, GUIDER, SAMPLER, SIGMAS, LATENT_IMAGE };
static const graft_input *const inputs[] = {
    [NOISE] = IN_OBJECT("noise", "NOISE",
                        "What to begin with: RandomNoise, or DisableNoise when the latents carry "
                        "noise already."),
    [GUIDER] =
        IN_OBJECT("guider", "GUIDER", "The model and its prompts, from CFGGuider or BasicGuider."),
    [SAMPLER] = IN_OBJECT("sampler", "SAMPLER", "The method, from KSamplerSelect."),
    [SIGMAS] = IN_OBJECT("sigmas", "SIGMAS",
                         "The steps, from a scheduler node. With fewer than two sigmas the latents "
                         "stay as they are."),
    [LATENT_IMAGE] = IN_OBJECT("latent_image", "LATENT",
                               "Where to start: an empty latent, an encoded picture, or the result "
                               "of another sampler."),
    NULL};
static const graft_output *const outputs[] = {
    OUT("output", "LATENT", "The latents after the last step, with the noise of the last sigma."),
    OUT("denoised_output", "LATENT",
        "What the model took the finished picture for in the last step: without noise, also when "
        "the sigmas do not end at 0."),
    NULL};

static graft_status run(graft_call *c)
{
    const graft_sampling *noise = graft_arg_part(c, NOISE);
    graft_sampling s = *graft_arg_part(c, GUIDER);
    s.add_noise = noise->add_noise;
    s.seed = noise->seed;
    s.sampler = graft_arg_part(c, SAMPLER)->sampler;
    s.sigmas = graft_arg_sigmas(c, SIGMAS);
    return graft_call_sample(c, &s, graft_arg_latent(c, LATENT_IMAGE));
}

GRAFT_NODE(sampler_custom_advanced, .id = "SamplerCustomAdvanced", .title = "SamplerCustomAdvanced",
           .category = "sampling/custom_sampling",
           .description = "A sampler whose noise, guidance, method and steps each come from a node "
                          "of their own.");
