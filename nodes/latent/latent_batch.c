/* LatentBatch: two batches become one. */
#include "nodes/node.h"

enum { SAMPLES1, SAMPLES2 };
static const graft_input *const inputs[] = {
    [SAMPLES1] = IN_OBJECT("samples1", "LATENT", "The first latents of the batch."),
    [SAMPLES2] =
        IN_OBJECT("samples2", "LATENT", "Those that follow; scaled to the size of the first."),
    NULL};
static const graft_output *const outputs[] = {OUT("LATENT", "LATENT", "All of them."), NULL};

static graft_status run(graft_call *c)
{
    graft_latent *latent = NULL;
    graft_status st = graft_latent_batch(graft_arg_latent(c, SAMPLES1),
                                         graft_arg_latent(c, SAMPLES2), &latent, &c->err);
    return st != GRAFT_OK ? st : graft_call_out_latent(c, 0, latent);
}

GRAFT_NODE(latent_batch, .id = "LatentBatch", .title = "LatentBatch", .category = "latent/batch",
           .description = "Puts latents into one batch, which is sampled together.");
