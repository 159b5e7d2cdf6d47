/* LatentApplyOperation: an operation on latents, at once. */
#include "nodes/node.h"

enum { SAMPLES, OPERATION };
static const graft_input *const inputs[] = {
    [SAMPLES] = IN_OBJECT("samples", "LATENT", "The latents to change."),
    [OPERATION] = IN_OBJECT("operation", "LATENT_OPERATION",
                            "What is done to them, from a LatentOperation node."),
    NULL};
static const graft_output *const outputs[] = {OUT("LATENT", "LATENT", "The changed latents."),
                                              NULL};

static graft_status run(graft_call *c)
{
    graft_latent *latent = NULL;
    graft_status st = graft_latent_operate(graft_arg_latent(c, SAMPLES),
                                           graft_arg_operation(c, OPERATION), &latent, &c->err);
    return st != GRAFT_OK ? st : graft_call_out_latent(c, 0, latent);
}

GRAFT_NODE(latent_apply_operation, .id = "LatentApplyOperation", .title = "LatentApplyOperation",
           .category = "latent/advanced/operations", .flags = GRAFT_NODE_EXPERIMENTAL,
           .description = "Does an operation to latents.");
