/* SamplerCustom: KSampler with sigmas of one's own. */
#include "nodes/sampling/custom_inputs.h"
#include "nodes/sampling/sampler_inputs.h"

enum { MODEL, ADD_NOISE, NOISE_SEED, CFG, POSITIVE, NEGATIVE, SAMPLER, SIGMAS, LATENT_IMAGE };
static const graft_input *const inputs[] = {
    [MODEL] = IN_OBJECT("model", "MODEL", "The diffusion model that removes the noise."),
    [ADD_NOISE] = IN_BOOL("add_noise", true,
                          "Turn it off when the latents already carry noise, such as those of a "
                          "sampler before this one."),
    [NOISE_SEED] = IN_SEED("noise_seed", "Number that the noise comes from. The same seed and "
                                         "settings give the same picture."),
    [CFG] = IN_CFG(),
    [POSITIVE] = IN_POSITIVE(),
    [NEGATIVE] = IN_NEGATIVE(),
    [SAMPLER] = IN_SAMPLER(),
    [SIGMAS] = IN_SIGMAS(),
    [LATENT_IMAGE] = IN_START(),
    NULL};
static const graft_output *const outputs[] = {OUT_SAMPLED(), OUT_DENOISED(), NULL};

static graft_status run(graft_call *c)
{
    const graft_sampling s = {.model = graft_arg_model(c, MODEL),
                              .positive = graft_arg_cond(c, POSITIVE),
                              .negative = graft_arg_cond(c, NEGATIVE),
                              .cfg = graft_arg_f64(c, CFG),
                              .sampler = graft_arg_part(c, SAMPLER)->sampler,
                              .options = graft_arg_part(c, SAMPLER)->options,
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
