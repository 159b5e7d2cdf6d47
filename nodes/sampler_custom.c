/* SamplerCustom: KSampler with sigmas of one's own. */
#include "nodes/part.h"
#include "nodes/sampler_inputs.h"

enum { MODEL, ADD_NOISE, NOISE_SEED, CFG, POSITIVE, NEGATIVE, SAMPLER, SIGMAS, LATENT_IMAGE };
static const graft_input *const inputs[] = {
    [MODEL] = IN_OBJECT("model", "MODEL", "The diffusion model that removes the noise."),
    [ADD_NOISE] = IN_BOOL("add_noise", true,
                          "Turn it off when the latents carry noise already, as those of a sampler "
                          "before this one."),
    [NOISE_SEED] = IN_SEED("noise_seed", "Number that the noise comes from. The same seed and "
                                         "settings give the same picture."),
    [CFG] = IN_CFG(),
    [POSITIVE] = IN_POSITIVE(),
    [NEGATIVE] = IN_NEGATIVE(),
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
    const graft_sampling s = {.model = graft_arg_model(c, MODEL),
                              .positive = graft_arg_cond(c, POSITIVE),
                              .negative = graft_arg_cond(c, NEGATIVE),
                              .cfg = graft_arg_f64(c, CFG),
                              .sampler = graft_arg_part(c, SAMPLER)->sampler,
                              .sigmas = graft_arg_sigmas(c, SIGMAS),
                              .add_noise = graft_arg_bool(c, ADD_NOISE),
                              .seed = graft_arg_u64(c, NOISE_SEED)};
    return graft_call_sample(c, &s, graft_arg_latent(c, LATENT_IMAGE));
}

GRAFT_NODE(sampler_custom, .id = "SamplerCustom", .title = "SamplerCustom",
           .category = "sampling/custom_sampling",
           .description =
               "A sampler whose steps come from a scheduler node. With BasicScheduler and "
               "the same settings it gives KSampler's picture.");
