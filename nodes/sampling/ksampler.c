/* KSampler: noise becomes a picture. */
#include "nodes/sampling/sampler_inputs.h"

enum {
    MODEL,
    SEED,
    STEPS,
    CFG,
    SAMPLER_NAME,
    SCHEDULER,
    POSITIVE,
    NEGATIVE,
    LATENT_IMAGE,
    DENOISE
};
static const graft_input *const inputs[] = {
    [MODEL] = IN_OBJECT("model", "MODEL", "The diffusion model that removes the noise."),
    [SEED] = IN_SEED("seed", "Number that the noise comes from. The same seed and settings give "
                             "the same picture."),
    [STEPS] = IN_INT("steps", 20, 1, 10000, 0,
                     "How many steps to take. More take longer; most samplers need 20 to 30."),
    [CFG] = IN_CFG(),
    [SAMPLER_NAME] = IN_SAMPLER_NAME(),
    [SCHEDULER] = IN_SCHEDULER(),
    [POSITIVE] = IN_POSITIVE(),
    [NEGATIVE] = IN_NEGATIVE(),
    [LATENT_IMAGE] = IN_OBJECT("latent_image", "LATENT",
                               "Where to start: an empty latent, or an encoded picture together "
                               "with a denoise below 1."),
    [DENOISE] = IN_FLOAT("denoise", 1.0, 0.0, 1.0, 0.01,
                         "How much of the start is replaced. 1 makes a new picture, 0.5 keeps its "
                         "composition, 0 changes nothing."),
    NULL};
static const graft_output *const outputs[] = {
    OUT("LATENT", "LATENT", "The finished latents, for a VAE to decode."), NULL};

static graft_status run(graft_call *c)
{
    graft_latent *latent = NULL;
    graft_sample_params params = {
        .seed = graft_arg_u64(c, SEED),
        .add_noise = true,
        .steps = graft_arg_i64(c, STEPS),
        .cfg = graft_arg_f64(c, CFG),
        .sampler = graft_arg_text(c, SAMPLER_NAME),
        .scheduler = graft_arg_text(c, SCHEDULER),
        .denoise = graft_arg_f64(c, DENOISE),
        .start_at_step = 0,
        .end_at_step = graft_arg_i64(c, STEPS),
        .force_full_denoise = false,
    };
    graft_call_phase(c, "sample");
    graft_status st = graft_sample(graft_arg_model(c, MODEL), &params, graft_arg_cond(c, POSITIVE),
                                   graft_arg_cond(c, NEGATIVE), graft_arg_latent(c, LATENT_IMAGE),
                                   &c->task, &latent, &c->err);
    return st != GRAFT_OK ? st : graft_call_out_latent(c, 0, latent);
}

QUERY_SAMPLERS()

GRAFT_NODE(ksampler, .id = "KSampler", .title = "KSampler", .category = "sampling",
           .description = "Turns noise into a picture step by step, guided by the positive and "
                          "away from the negative prompt.",
           .query = query);
