/* AddNoise: latents with noise, without sampling. */
#include "nodes/node.h"

enum { MODEL, NOISE, SIGMAS, LATENT_IMAGE };
static const graft_input *const inputs[] = {
    [MODEL] = IN_OBJECT("model", "MODEL", "The diffusion model that will take the noise away."),
    [NOISE] = IN_OBJECT("noise", "NOISE", "The noise, from RandomNoise."),
    [SIGMAS] = IN_OBJECT("sigmas", "SIGMAS",
                         "How much of it: the difference between the first and the last, or the "
                         "only one. None: no noise."),
    [LATENT_IMAGE] = IN_OBJECT("latent_image", "LATENT", "What gets the noise."),
    NULL};
static const graft_output *const outputs[] = {
    OUT("LATENT", "LATENT", "The latents with noise, for a sampler with DisableNoise."), NULL};

static graft_status run(graft_call *c)
{
    const graft_sampling *noise = graft_arg_part(c, NOISE);
    graft_latent *latent = NULL;
    graft_status st = graft_latent_noised(
        graft_arg_model(c, MODEL), graft_arg_latent(c, LATENT_IMAGE), graft_arg_sigmas(c, SIGMAS),
        noise->add_noise, noise->seed, &latent, &c->err);
    return st != GRAFT_OK ? st : graft_call_out_latent(c, 0, latent);
}

GRAFT_NODE(add_noise, .id = "AddNoise", .title = "AddNoise",
           .category = "_for_testing/custom_sampling/noise", .flags = GRAFT_NODE_EXPERIMENTAL,
           .description = "Adds noise to latents as a sampler does before its first step, so that "
                          "two samplers can begin alike, or one with the noise of two seeds.");
