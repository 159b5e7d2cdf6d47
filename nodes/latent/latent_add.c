/* LatentAdd: latents added cell by cell. */
#include "nodes/node.h"

enum { SAMPLES1, SAMPLES2 };
static const graft_input *const inputs[] = {
    [SAMPLES1] = IN_OBJECT("samples1", "LATENT", "The latents to begin with."),
    [SAMPLES2] =
        IN_OBJECT("samples2", "LATENT", "What is added; scaled and cut to the size of the first."),
    NULL};
static const graft_output *const outputs[] = {OUT("LATENT", "LATENT", "The result."), NULL};

static graft_status run(graft_call *c)
{
    graft_latent *latent = NULL;
    graft_status st = graft_latent_sum(graft_arg_latent(c, SAMPLES1), 1,
                                       graft_arg_latent(c, SAMPLES2), 1, &latent, &c->err);
    return st != GRAFT_OK ? st : graft_call_out_latent(c, 0, latent);
}

GRAFT_NODE(latent_add, .id = "LatentAdd", .title = "LatentAdd", .category = "latent/advanced",
           .description = "Adds latents, cell by cell.");
