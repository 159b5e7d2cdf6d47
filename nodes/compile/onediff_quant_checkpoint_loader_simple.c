/* OneDiffQuantCheckpointLoaderSimple: CheckpointLoaderSimple, CompileModel and QuantizeModel. */
#include "nodes/compile/booster_nodes.h"
#include "nodes/node.h"

enum { CKPT_NAME = GRAFT_BOOSTER_CKPT_NAME, VAE_SPEEDUP };
static const graft_input *const inputs[] = {
    [CKPT_NAME] = &graft_booster_ckpt_name, [VAE_SPEEDUP] = &graft_booster_vae_speedup, NULL};
static const graft_output *const outputs[] = {&graft_booster_model, &graft_booster_clip,
                                              &graft_booster_vae, NULL};

static graft_status run(graft_call *c)
{
    /* OneDiff's densities are 600 for convolutions and 900 for linear layers. */
    const graft_quantize_options options = graft_booster_quantize(true, true, 900);
    graft_booster *b = NULL;
    graft_status st = graft_booster_create(NULL, &options, &b, &c->err);
    if (st == GRAFT_OK) st = graft_booster_load(c, graft_arg_is(c, VAE_SPEEDUP, "enable"), b);
    graft_booster_release(b);
    return st;
}

GRAFT_NODE(onediff_quant_checkpoint_loader_simple, .id = "OneDiffQuantCheckpointLoaderSimple",
           .title = "Load Checkpoint - OneDiff Quant", .category = "OneDiff/Loaders",
           .flags = GRAFT_NODE_DEPRECATED,
           .description = "For workflows made for OneDiff. In new ones use Load Checkpoint "
                          "followed by Compile Model and Quantize Model.",
           .query = graft_booster_loader_query);
