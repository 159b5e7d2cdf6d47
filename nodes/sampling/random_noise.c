/* RandomNoise: the noise of a seed. */
#include "nodes/node.h"

enum { NOISE_SEED };
static const graft_input *const inputs[] = {
    [NOISE_SEED] = IN_SEED("noise_seed", "Number that the noise comes from. The same seed and "
                                         "settings give the same picture."),
    NULL};
static const graft_output *const outputs[] = {
    OUT("NOISE", "NOISE", "The noise, for SamplerCustomAdvanced."), NULL};

static graft_status run(graft_call *c)
{
    const graft_sampling known = {.add_noise = true, .seed = graft_arg_u64(c, NOISE_SEED)};
    return graft_call_out_part(c, 0, "NOISE", &known);
}

GRAFT_NODE(random_noise, .id = "RandomNoise", .title = "RandomNoise",
           .category = "sampling/custom_sampling/noise",
           .description = "Noise to begin with, made from a seed as KSampler does.");
