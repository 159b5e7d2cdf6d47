/* LatentOperationSharpen: more difference between neighbours in a latent. */
#include "nodes/node.h"

enum { SHARPEN_RADIUS, SIGMA, ALPHA };
static const graft_input *const inputs[] = {
    [SHARPEN_RADIUS] = IN_INT("sharpen_radius", 9, 1, GRAFT_OPERATION_RADIUS, 1,
                              "How far around a place is looked. A latent must be larger than "
                              "that each way: one of 64 x 64 pixels has 8 x 8 places."),
    [SIGMA] = IN_FLOAT("sigma", 1.0, 0.1, 10.0, 0.1,
                       "How much far neighbours count against near ones, in radii."),
    [ALPHA] = IN_FLOAT("alpha", 0.1, 0.0, 5.0, 0.01, "How much is sharpened; 0 changes nothing."),
    NULL};
static const graft_output *const outputs[] = {
    OUT("LATENT_OPERATION", "LATENT_OPERATION",
        "For LatentApplyOperation and LatentApplyOperationCFG."),
    NULL};

static graft_status run(graft_call *c)
{
    const graft_latent_operation operation = {.kind = GRAFT_OPERATION_SHARPEN,
                                              .radius = graft_arg_i64(c, SHARPEN_RADIUS),
                                              .sigma = graft_arg_f64(c, SIGMA),
                                              .alpha = graft_arg_f64(c, ALPHA)};
    return graft_call_out_operation(c, 0, &operation);
}

GRAFT_NODE(latent_operation_sharpen, .id = "LatentOperationSharpen",
           .title = "LatentOperationSharpen", .category = "latent/advanced/operations",
           .flags = GRAFT_NODE_EXPERIMENTAL,
           .description = "Sharpens latents: what a place has and its surroundings have not counts "
                          "more. How strong it is stays.");
