/* LatentOperationTonemapReinhard: what is strong in a latent becomes weaker. */
#include "nodes/node.h"

enum { MULTIPLIER };
static const graft_input *const inputs[] = {
    [MULTIPLIER] = IN_FLOAT("multiplier", 1.0, 0.0, 100.0, 0.01,
                            "How strong a place may be, against the mean and the spread of all of "
                            "them: less changes more, and 0 leaves nothing."),
    NULL};
static const graft_output *const outputs[] = {
    OUT("LATENT_OPERATION", "LATENT_OPERATION",
        "For LatentApplyOperation and LatentApplyOperationCFG."),
    NULL};

static graft_status run(graft_call *c)
{
    const graft_latent_operation operation = {.kind = GRAFT_OPERATION_TONEMAP,
                                              .multiplier = graft_arg_f64(c, MULTIPLIER)};
    return graft_call_out_operation(c, 0, &operation);
}

GRAFT_NODE(latent_operation_tonemap_reinhard, .id = "LatentOperationTonemapReinhard",
           .title = "LatentOperationTonemapReinhard", .category = "latent/advanced/operations",
           .flags = GRAFT_NODE_EXPERIMENTAL,
           .description = "Reinhard's tone mapping of latents: the stronger a place is against the "
                          "others, the more it is weakened. With LatentApplyOperationCFG a high "
                          "cfg burns colours in less.");
