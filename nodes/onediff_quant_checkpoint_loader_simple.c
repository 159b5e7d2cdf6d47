/* OneDiffQuantCheckpointLoaderSimple: CheckpointLoaderSimple, CompileModel and QuantizeModel. */
#include "nodes/booster.h"
#include "nodes/node.h"

enum { CKPT_NAME, VAE_SPEEDUP };
static const graft_input *const inputs[] = {
    [CKPT_NAME] = &graft_booster_ckpt_name, [VAE_SPEEDUP] = &graft_booster_vae_speedup, NULL};
static const graft_output *const outputs[] = {
    OUT("MODEL", "MODEL", "The compiled diffusion model."),
    OUT("CLIP", "CLIP", "The text encoder, for prompts."),
    OUT("VAE", "VAE", "Turns pictures into latents and back."), NULL};

static graft_status run(graft_call *c)
{
    /* OneDiff's densities are 600 for convolutions and 900 for linear layers. */
    const graft_quantize_options options = graft_booster_quantize(true, true, 900);
    graft_booster *b = NULL;
    graft_status st = graft_booster_create(NULL, &options, &b, &c->err);
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

GRAFT_NODE(onediff_quant_checkpoint_loader_simple, .id = "OneDiffQuantCheckpointLoaderSimple",
           .title = "Load Checkpoint - OneDiff Quant", .category = "OneDiff/Loaders",
           .flags = GRAFT_NODE_DEPRECATED,
           .description = "For workflows made for OneDiff. In new ones use Load Checkpoint with "
                          "Compile Model and Quantize Model behind it.",
           .query = query);
