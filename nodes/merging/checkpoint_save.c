/* CheckpointSave: model, text encoder and VAE as one file. */
#include "nodes/merging/checkpoint_file.h"
#include "nodes/node.h"
#include "nodes/call/output.h"

enum { MODEL, CLIP, VAE, FILENAME_PREFIX };
static const graft_input *const inputs[] = {
    [MODEL] =
        IN_OBJECT("model", "MODEL", "The diffusion model to save, with its LoRAs and merges."),
    [CLIP] = IN_OBJECT("clip", "CLIP", "The text encoder to save, with its LoRAs and merges."),
    [VAE] = IN_OBJECT("vae", "VAE", "The VAE to save."),
    [FILENAME_PREFIX] = IN_TEXT("filename_prefix", "checkpoints/ComfyUI",
                                "How the file's name begins, with its sub-folder; a number "
                                "follows. Loaders find what lies in checkpoints."),
    NULL};
static const graft_output *const outputs[] = {NULL};

static graft_status run(graft_call *c)
{
    const graft_checkpoint what = {.model = graft_arg_model(c, MODEL),
                                   .clip = graft_arg_clip(c, CLIP),
                                   .vae = graft_arg_vae(c, VAE)};
    return graft_checkpoint_file_write(c, &what, graft_arg_text(c, FILENAME_PREFIX));
}

QUERY_PREFIX()

GRAFT_NODE(checkpoint_save, .id = "CheckpointSave", .title = "Save Checkpoint",
           .category = "advanced/model_merging", .flags = GRAFT_NODE_OUTPUT,
           .description = "Saves a checkpoint in the output folder, with LoRAs and merges in its "
                          "weights and the workflow in its metadata. Weights keep the type in "
                          "which they were stored.",
           .query = query);
