/* OneDiffDeepCacheCheckpointLoaderSimple: CheckpointLoaderSimple, CompileModel and DeepCache. */
#include "nodes/booster.h"
#include "nodes/node.h"

enum { CKPT_NAME, VAE_SPEEDUP, STATIC_MODE, INTERVAL, LAYER, BLOCK, START, END };
static const graft_input *const inputs[] = {[CKPT_NAME] = &graft_booster_ckpt_name,
                                            [VAE_SPEEDUP] = &graft_booster_vae_speedup,
                                            [STATIC_MODE] = &graft_booster_static_mode,
                                            [INTERVAL] = &graft_booster_interval,
                                            [LAYER] = &graft_booster_layer,
                                            [BLOCK] = &graft_booster_block,
                                            [START] = &graft_booster_start,
                                            [END] = &graft_booster_end,
                                            NULL};
static const graft_output *const outputs[] = {
    OUT("MODEL", "MODEL", "The compiled diffusion model."),
    OUT("CLIP", "CLIP", "The text encoder, for prompts."),
    OUT("VAE", "VAE", "Turns pictures into latents and back."), NULL};

static graft_status run(graft_call *c)
{
    const graft_deepcache_options options = graft_booster_read(c, INTERVAL);
    graft_booster *b = NULL;
    graft_status st = graft_booster_create(&options, NULL, &b, &c->err);
    if (st == GRAFT_OK)
        st = graft_booster_load(c, CKPT_NAME, graft_arg_is(c, VAE_SPEEDUP, "enable"), b);
    graft_booster_release(b);
    return st;
}

static char **list(const graft_host *h, const char *input)
{
    (void)input;
    return graft_files_choices(h, "checkpoints");
}
QUERY_CHOICES()

GRAFT_NODE(onediff_deepcache_checkpoint_loader_simple,
           .id = "OneDiffDeepCacheCheckpointLoaderSimple",
           .title = "Load Checkpoint - OneDiff DeepCache", .category = "OneDiff/Loaders",
           .flags = GRAFT_NODE_DEPRECATED,
           .description = "For workflows made for OneDiff. In new ones use Load Checkpoint with "
                          "Compile Model and DeepCache behind it.",
           .query = query);
