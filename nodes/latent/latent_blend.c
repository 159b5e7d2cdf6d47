/* LatentBlend: two latents mixed. */
#include "nodes/node.h"

enum { SAMPLES1, SAMPLES2, BLEND_FACTOR };
static const graft_input *const inputs[] = {
    [SAMPLES1] = IN_OBJECT("samples1", "LATENT", "The first latents."),
    [SAMPLES2] = IN_OBJECT("samples2", "LATENT", "The second; scaled to the size of the first."),
    [BLEND_FACTOR] = IN_FLOAT("blend_factor", 0.5, 0.0, 1.0, 0.01,
                              "How much of the first: 1 is all, 0 is the second alone."),
    NULL};
static const graft_output *const outputs[] = {OUT("LATENT", "LATENT", "The mixture."), NULL};

static graft_status run(graft_call *c)
{
    graft_latent *latent = NULL;
    graft_status st =
        graft_latent_blend(graft_arg_latent(c, SAMPLES1), graft_arg_latent(c, SAMPLES2),
                           graft_arg_f64(c, BLEND_FACTOR), &latent, &c->err);
    return st != GRAFT_OK ? st : graft_call_out_latent(c, 0, latent);
}

GRAFT_NODE(latent_blend, .id = "LatentBlend", .title = "Latent Blend", .category = "_for_testing",
           .description = "Mixes two latents, value by value.");
