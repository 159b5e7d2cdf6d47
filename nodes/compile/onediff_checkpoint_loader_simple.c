/* OneDiffCheckpointLoaderSimple: CheckpointLoaderSimple with CompileModel and a booster. */
#include "nodes/compile/booster_nodes.h"
#include "nodes/node.h"

enum { CKPT_NAME = GRAFT_BOOSTER_CKPT_NAME, VAE_SPEEDUP, CUSTOM_BOOSTER };
static const graft_input *const inputs[] = {
    [CKPT_NAME] = &graft_booster_ckpt_name,
    [VAE_SPEEDUP] = &graft_booster_vae_speedup,
    [CUSTOM_BOOSTER] = IN_OBJECT("custom_booster", "CUSTOM_BOOSTER",
                                 "What to add to compiling; nothing when not connected.",
                                 .flags = GRAFT_INPUT_OPTIONAL),
    NULL};
static const graft_output *const outputs[] = {&graft_booster_model, &graft_booster_clip,
                                              &graft_booster_vae, NULL};

static graft_status run(graft_call *c)
{
    return graft_booster_load(c, graft_arg_is(c, VAE_SPEEDUP, "enable"),
                              graft_arg_booster(c, CUSTOM_BOOSTER));
}

GRAFT_NODE(onediff_checkpoint_loader_simple, .id = "OneDiffCheckpointLoaderSimple",
           .title = "Load Checkpoint - OneDiff", .category = "OneDiff/Loaders",
           .flags = GRAFT_NODE_DEPRECATED,
           .description = "For workflows made for OneDiff. In new ones use Load Checkpoint "
                          "followed by Compile Model and Compile VAE.",
           .query = graft_booster_loader_query);
