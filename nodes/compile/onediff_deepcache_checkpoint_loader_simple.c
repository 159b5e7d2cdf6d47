/* OneDiffDeepCacheCheckpointLoaderSimple: CheckpointLoaderSimple, CompileModel and DeepCache. */
#include "nodes/compile/booster_nodes.h"
#include "nodes/node.h"

enum {
    CKPT_NAME = GRAFT_BOOSTER_CKPT_NAME,
    VAE_SPEEDUP,
    STATIC_MODE,
    INTERVAL,
    LAYER,
    BLOCK,
    START,
    END
};
static const graft_input *const inputs[] = {[CKPT_NAME] = &graft_booster_ckpt_name,
                                            [VAE_SPEEDUP] = &graft_booster_vae_speedup,
                                            [STATIC_MODE] = &graft_booster_static_mode,
                                            [INTERVAL] = &graft_booster_interval,
                                            [LAYER] = &graft_booster_layer,
                                            [BLOCK] = &graft_booster_block,
                                            [START] = &graft_booster_start,
                                            [END] = &graft_booster_end,
                                            NULL};
static const graft_output *const outputs[] = {&graft_booster_model, &graft_booster_clip,
                                              &graft_booster_vae, NULL};

static graft_status run(graft_call *c)
{
    const graft_deepcache_options options = graft_booster_read_deepcache(c, INTERVAL);
    graft_booster *b = NULL;
    graft_status st = graft_booster_create(&options, NULL, &b, &c->err);
    if (st == GRAFT_OK) st = graft_booster_load(c, graft_arg_is(c, VAE_SPEEDUP, "enable"), b);
    graft_booster_release(b);
    return st;
}

GRAFT_NODE(onediff_deepcache_checkpoint_loader_simple,
           .id = "OneDiffDeepCacheCheckpointLoaderSimple",
           .title = "Load Checkpoint - OneDiff DeepCache", .category = "OneDiff/Loaders",
           .flags = GRAFT_NODE_DEPRECATED,
           .description = "For workflows made for OneDiff. In new ones use Load Checkpoint "
                          "followed by Compile Model and DeepCache.",
           .query = graft_booster_loader_query);
