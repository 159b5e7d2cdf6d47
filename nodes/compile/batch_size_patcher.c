/* BatchSizePatcher, a name of OneDiff: nothing to do, because the batch is a shape like any other.
 */
#include "nodes/node.h"

enum { MODEL, LATENT_IMAGE };
static const graft_input *const inputs[] = {
    [MODEL] = IN_OBJECT("model", "MODEL", "The diffusion model; it comes out as it is."),
    [LATENT_IMAGE] =
        IN_OBJECT("latent_image", "LATENT", "Has no effect: any batch size can be sampled."),
    NULL};
static const graft_output *const outputs[] = {OUT("MODEL", "MODEL", "The same model."), NULL};

static graft_status run(graft_call *c)
{
    return graft_call_out_model(c, 0, graft_model_retain(graft_arg_model(c, MODEL)));
}

GRAFT_NODE(batch_size_patcher, .id = "BatchSizePatcher", .title = "Batch Size Patcher",
           .category = "OneDiff/Tools", .flags = GRAFT_NODE_DEPRECATED,
           .description = "For workflows made for OneDiff. It has no effect and can be removed.");
