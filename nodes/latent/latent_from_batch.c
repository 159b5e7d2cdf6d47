/* LatentFromBatch: some latents of a batch. */
#include "nodes/node.h"

enum { SAMPLES, BATCH_INDEX, LENGTH };
static const graft_input *const inputs[] = {
    [SAMPLES] = IN_OBJECT("samples", "LATENT", "The batch to take from."),
    [BATCH_INDEX] = IN_INT("batch_index", 0, 0, 63, 0, "The first one to take; 0 is the first."),
    [LENGTH] = IN_INT("length", 1, 1, 64, 0, "How many to take."),
    NULL};
static const graft_output *const outputs[] = {
    OUT("LATENT", "LATENT", "The chosen latents; a sampler gives them the noise they had."), NULL};

static graft_status run(graft_call *c)
{
    graft_latent *latent = NULL;
    graft_status st =
        graft_latent_from_batch(graft_arg_latent(c, SAMPLES), graft_arg_i64(c, BATCH_INDEX),
                                graft_arg_i64(c, LENGTH), &latent, &c->err);
    return st != GRAFT_OK ? st : graft_call_out_latent(c, 0, latent);
}

GRAFT_NODE(latent_from_batch, .id = "LatentFromBatch", .title = "Latent From Batch",
           .category = "latent/batch",
           .description = "Picks latents out of a batch, for example to make one picture of a "
                          "batch again.");
