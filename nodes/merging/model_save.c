/* ModelSave: a diffusion model as a file. */
#include "nodes/call/output.h"
#include "nodes/merging/checkpoint_file.h"
#include "nodes/node.h"

enum { MODEL, FILENAME_PREFIX };
static const graft_input *const inputs[] = {
    [MODEL] =
        IN_OBJECT("model", "MODEL", "The diffusion model to save, with its LoRAs and merges."),
    [FILENAME_PREFIX] = IN_TEXT("filename_prefix", "diffusion_models/ComfyUI",
                                "How the file's name begins, with its sub-folder; a number "
                                "follows. Loaders find what lies in diffusion_models."),
    NULL};
static const graft_output *const outputs[] = {NULL};

static graft_status run(graft_call *c)
{
    const graft_checkpoint what = {.model = graft_arg_model(c, MODEL)};
    return graft_checkpoint_file_write(c, &what, graft_arg_text(c, FILENAME_PREFIX));
}

QUERY_PREFIX()

GRAFT_NODE(model_save, .id = "ModelSave", .title = "ModelSave",
           .category = "advanced/model_merging", .flags = GRAFT_NODE_OUTPUT,
           .description = "Saves the diffusion model alone in the output folder, with LoRAs and "
                          "merges in its weights.",
           .query = query);
