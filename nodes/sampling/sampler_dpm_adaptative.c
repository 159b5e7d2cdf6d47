/* SamplerDPMAdaptative: dpm_adaptive with its numbers. */
#include "nodes/sampling/sampler_options.h"

enum { ORDER, RTOL, ATOL, H_INIT, PCOEFF, ICOEFF, DCOEFF, ACCEPT_SAFETY, ETA, S_NOISE };
#define IN_NUMBER(name_, initial_, tooltip_)                                                       \
    IN_FLOAT(name_, initial_, 0.0, 100.0, 0.01, tooltip_, .flags = GRAFT_INPUT_EXACT)
static const graft_input *const inputs[] = {
    [ORDER] = IN_INT("order", 3, 2, 3, 0,
                     "How often a step asks the model, and the order of the result: 3 is more "
                     "exact, 2 has shorter steps."),
    [RTOL] = IN_NUMBER("rtol", 0.05,
                       "The error that a step may have, as a share of the latent's values: less is "
                       "more exact and takes more steps."),
    [ATOL] = IN_NUMBER("atol", 0.0078,
                       "The error that a step may have at least, where the latent is near 0."),
    [H_INIT] = IN_NUMBER("h_init", 0.05,
                         "Length of the first step, in the logarithm of sigma; 0 has no meaning."),
    [PCOEFF] = IN_NUMBER("pcoeff", 0.0,
                         "How much a change of the error since the last step counts for the length "
                         "of the next one."),
    [ICOEFF] = IN_NUMBER("icoeff", 1.0,
                         "How much the error itself counts for the length of the next step."),
    [DCOEFF] = IN_NUMBER("dcoeff", 0.0,
                         "How much a change of that change counts for the length of the next "
                         "step."),
    [ACCEPT_SAFETY] = IN_NUMBER("accept_safety", 0.81,
                                "A step is tried anew if the next one would have to be shorter "
                                "than this share of it. 2.57 and more would never be reached."),
    [ETA] = IN_NUMBER("eta", 0.0,
                      "Share of the noise that each step takes away and adds anew: 0 adds none, 1 "
                      "is what ancestral samplers do."),
    [S_NOISE] = IN_S_NOISE(),
    NULL};
static const graft_output *const outputs[] = {OUT_SAMPLER(), NULL};

static graft_status run(graft_call *c)
{
    graft_sampling known = {.sampler = "dpm_adaptive", .options = {USUAL_NUMBERS()}};
    known.options.order = graft_arg_i64(c, ORDER);
    known.options.eta = graft_arg_f64(c, ETA);
    known.options.s_noise = graft_arg_f64(c, S_NOISE);
    known.options.adaptive =
        (graft_adaptive_options){.rtol = graft_arg_f64(c, RTOL),
                                 .atol = graft_arg_f64(c, ATOL),
                                 .h_init = graft_arg_f64(c, H_INIT),
                                 .pcoeff = graft_arg_f64(c, PCOEFF),
                                 .icoeff = graft_arg_f64(c, ICOEFF),
                                 .dcoeff = graft_arg_f64(c, DCOEFF),
                                 .accept_safety = graft_arg_f64(c, ACCEPT_SAFETY)};
    return graft_call_out_part(c, 0, "SAMPLER", &known);
}

GRAFT_NODE(sampler_dpm_adaptative, .id = "SamplerDPMAdaptative", .title = "SamplerDPMAdaptative",
           .category = "sampling/custom_sampling/samplers",
           .description = "The sampler dpm_adaptive, which finds the length of its steps itself, "
                          "with adjustable errors and noise. Of the sigmas only the first and the "
                          "last count.");
