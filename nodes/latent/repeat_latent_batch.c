/* RepeatLatentBatch: copies of a batch. */
#include "nodes/node.h"

enum { SAMPLES, AMOUNT };
static const graft_input *const inputs[] = {
    [SAMPLES] = IN_OBJECT("samples", "LATENT", "The batch to repeat."),
    [AMOUNT] = IN_INT("amount", 1, 1, 64, 0, "How many copies the result holds."),
    NULL};
static const graft_output *const outputs[] = {
    OUT("LATENT", "LATENT", "The repeated batch; a sampler gives each copy different noise."),
    NULL};

static graft_status run(graft_call *c)
{
    graft_latent *latent = NULL;
    graft_status st = graft_latent_repeat(graft_arg_latent(c, SAMPLES), graft_arg_i64(c, AMOUNT),
                                          &latent, &c->err);
    return st != GRAFT_OK ? st : graft_call_out_latent(c, 0, latent);
}

GRAFT_NODE(repeat_latent_batch, .id = "RepeatLatentBatch", .title = "Repeat Latent Batch",
           .category = "latent/batch",
           .description = "Repeats a batch of latents, to make several variants of one picture.");
