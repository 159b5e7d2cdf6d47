/* BatchLatentsNode: any number of batches of latents become one. */
#include "nodes/call/batch_inputs.h"

#define SLOT(number_)                                                                              \
    IN_OBJECT("latents.latent" #number_, "LATENT",                                                 \
              "Number " #number_ " of them, if it is connected.", .flags = BATCH_SLOT_FLAGS)
static const graft_input *const inputs[] = {
    IN_OBJECT("latents.latent0", "LATENT",
              "The first latents of the batch, which give it their size."),
    IN_OBJECT("latents.latent1", "LATENT", "Those that follow; scaled to the size of the first.",
              .flags = BATCH_SLOT_FLAGS),
    BATCH_SLOTS(SLOT), NULL};
static const graft_output *const outputs[] = {OUT("LATENT", "LATENT", "All of them."), NULL};

static graft_status run(graft_call *c)
{
    graft_status st = GRAFT_OK;
    graft_latent *all = graft_latent_retain(graft_arg_latent(c, 0));
    for (int i = 1; i < BATCH_INPUTS && st == GRAFT_OK; i++) {
        graft_latent *one = graft_arg_latent(c, i), *longer = NULL;
        if (!one) continue;
        st = graft_latent_batch(all, one, &longer, &c->err);
        graft_latent_release(all);
        all = longer;
    }
    return st != GRAFT_OK ? st : graft_call_out_latent(c, 0, all);
}

GRAFT_NODE(batch_latents, .id = "BatchLatentsNode", .title = "Batch Latents",
           .category = "latent/batch",
           .description = "Puts any number of latents into one batch, which is sampled together.");
