/* LatentBatchSeedBehavior: whether a batch's pictures get the same noise. */
#include "nodes/node.h"

enum { SAMPLES, SEED_BEHAVIOR };
static const graft_input *const inputs[] = {
    [SAMPLES] = IN_OBJECT("samples", "LATENT", "The batch to change."),
    [SEED_BEHAVIOR] = IN_CHOICE("seed_behavior", CHOICES("random", "fixed"),
                                "fixed: all get the noise of the first. random: each its own, by "
                                "its place in the batch.",
                                .initial.s = "fixed"),
    NULL};
static const graft_output *const outputs[] = {
    OUT("LATENT", "LATENT", "The same latents, to be sampled this way."), NULL};

static graft_status run(graft_call *c)
{
    graft_latent *latent = NULL;
    graft_status st = graft_latent_same_noise(
        graft_arg_latent(c, SAMPLES), graft_arg_is(c, SEED_BEHAVIOR, "fixed"), &latent, &c->err);
    return st != GRAFT_OK ? st : graft_call_out_latent(c, 0, latent);
}

GRAFT_NODE(latent_batch_seed_behavior, .id = "LatentBatchSeedBehavior",
           .title = "LatentBatchSeedBehavior", .category = "latent/advanced",
           .description = "Chooses whether the pictures of a batch begin with the same noise.");
