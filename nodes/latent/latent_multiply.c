/* LatentMultiply: latents times a number. */
#include "nodes/node.h"

enum { SAMPLES, MULTIPLIER };
static const graft_input *const inputs[] = {
    [SAMPLES] = IN_OBJECT("samples", "LATENT", "The latents to multiply."),
    [MULTIPLIER] = IN_FLOAT("multiplier", 1.0, -10.0, 10.0, 0.01,
                            "The factor of every value: 1 changes nothing, 0 empties the latents."),
    NULL};
static const graft_output *const outputs[] = {OUT("LATENT", "LATENT", "The result."), NULL};

static graft_status run(graft_call *c)
{
    graft_latent *latent = NULL;
    graft_status st = graft_latent_sum(graft_arg_latent(c, SAMPLES), graft_arg_f64(c, MULTIPLIER),
                                       NULL, 0, &latent, &c->err);
    return st != GRAFT_OK ? st : graft_call_out_latent(c, 0, latent);
}

GRAFT_NODE(latent_multiply, .id = "LatentMultiply", .title = "LatentMultiply",
           .category = "latent/advanced",
           .description = "Multiplies latents by a number: a little above 1 gives more contrast.");
