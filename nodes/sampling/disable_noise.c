/* DisableNoise: the latents carry their noise already. */
#include "nodes/node.h"

static const graft_input *const inputs[] = {NULL};
static const graft_output *const outputs[] = {
    OUT("NOISE", "NOISE", "No noise, for SamplerCustomAdvanced."), NULL};

static graft_status run(graft_call *c)
{
    const graft_sampling known = {.add_noise = false, .seed = 0};
    return graft_call_out_part(c, 0, "NOISE", &known);
}

GRAFT_NODE(disable_noise, .id = "DisableNoise", .title = "DisableNoise",
           .category = "sampling/custom_sampling/noise",
           .description =
               "Adds no noise: for latents that another sampler left noisy, and with flipped "
               "sigmas. Noise that a sampler adds on its way comes from seed 0.");
