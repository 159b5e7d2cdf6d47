/* VAESave: a VAE as a file. */
#include "nodes/call/output.h"
#include "nodes/merging/checkpoint_file.h"
#include "nodes/node.h"

enum { VAE, FILENAME_PREFIX };
static const graft_input *const inputs[] = {
    [VAE] = IN_OBJECT("vae", "VAE", "The VAE to save."),
    [FILENAME_PREFIX] = IN_TEXT("filename_prefix", "vae/ComfyUI_vae",
                                "How the file's name begins, with its sub-folder; a number "
                                "follows. Loaders find what lies in vae."),
    NULL};
static const graft_output *const outputs[] = {NULL};

static graft_status run(graft_call *c)
{
    const graft_checkpoint what = {.vae = graft_arg_vae(c, VAE)};
    return graft_checkpoint_file_write(c, &what, graft_arg_text(c, FILENAME_PREFIX));
}

QUERY_PREFIX()

GRAFT_NODE(vae_save, .id = "VAESave", .title = "VAESave", .category = "advanced/model_merging",
           .flags = GRAFT_NODE_OUTPUT, .description = "Saves the VAE alone in the output folder.",
           .query = query);
