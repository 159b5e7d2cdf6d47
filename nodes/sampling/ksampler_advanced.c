/* KSamplerAdvanced: a part of the steps, with or without noise at its ends. */
#include "nodes/sampling/sampler_inputs.h"

enum {
    MODEL,
    ADD_NOISE,
    NOISE_SEED,
    STEPS,
    CFG,
    SAMPLER_NAME,
    SCHEDULER,
    POSITIVE,
    NEGATIVE,
    LATENT_IMAGE,
    START_AT_STEP,
    END_AT_STEP,
    RETURN_WITH_LEFTOVER_NOISE
};
static const graft_input *const inputs[] = {
    [MODEL] = IN_OBJECT("model", "MODEL", "The diffusion model that removes the noise."),
    [ADD_NOISE] = IN_CHOICE("add_noise", CHOICES("enable", "disable"),
                            "Disable it when the latents already carry noise, such as those of a "
                            "sampler before this one."),
    [NOISE_SEED] = IN_SEED("noise_seed", "Number that the noise comes from. The same seed and "
                                         "settings give the same picture."),
    [STEPS] = IN_INT("steps", 20, 1, 10000, 0,
                     "Steps of the whole schedule, of which this node does those from "
                     "start_at_step to end_at_step."),
    [CFG] = IN_CFG(),
    [SAMPLER_NAME] = IN_SAMPLER_NAME(),
    [SCHEDULER] = IN_SCHEDULER(),
    [POSITIVE] = IN_POSITIVE(),
    [NEGATIVE] = IN_NEGATIVE(),
    [LATENT_IMAGE] = IN_OBJECT("latent_image", "LATENT",
                               "Where to start: an empty latent, an encoded picture, or the result "
                               "of another sampler."),
    [START_AT_STEP] = IN_INT("start_at_step", 0, 0, 10000, 0,
                             "First step to do. Above 0 the start is kept in part, as with a "
                             "denoise below 1."),
    [END_AT_STEP] = IN_INT("end_at_step", 10000, 0, 10000, 0,
                           "Step to stop before; anything from the number of steps on means the "
                           "end."),
    [RETURN_WITH_LEFTOVER_NOISE] =
        IN_CHOICE("return_with_leftover_noise", CHOICES("disable", "enable"),
                  "Enable it when another sampler does the remaining steps; otherwise the last "
                  "step removes all noise."),
    NULL};
static const graft_output *const outputs[] = {
    OUT("LATENT", "LATENT", "The latents after the last step done here."), NULL};

static graft_status run(graft_call *c)
{
    graft_latent *latent = NULL;
    graft_sample_params params = {
        .seed = graft_arg_u64(c, NOISE_SEED),
        .add_noise = graft_arg_is(c, ADD_NOISE, "enable"),
        .steps = graft_arg_i64(c, STEPS),
        .cfg = graft_arg_f64(c, CFG),
        .sampler = graft_arg_text(c, SAMPLER_NAME),
        .scheduler = graft_arg_text(c, SCHEDULER),
        .denoise = 1.0,
        .start_at_step = graft_arg_i64(c, START_AT_STEP),
        .end_at_step = graft_arg_i64(c, END_AT_STEP),
        .force_full_denoise = graft_arg_is(c, RETURN_WITH_LEFTOVER_NOISE, "disable"),
    };
    graft_call_phase(c, "sample");
    graft_status st = graft_sample(graft_arg_model(c, MODEL), &params, graft_arg_cond(c, POSITIVE),
                                   graft_arg_cond(c, NEGATIVE), graft_arg_latent(c, LATENT_IMAGE),
                                   &c->task, &latent, &c->err);
    return st != GRAFT_OK ? st : graft_call_out_latent(c, 0, latent);
}

QUERY_SAMPLERS()

GRAFT_NODE(ksampler_advanced, .id = "KSamplerAdvanced", .title = "KSampler (Advanced)",
           .category = "sampling",
           .description = "A sampler that does only some steps of the schedule, so that several "
                          "can share the work.",
           .query = query);
