/* SaveLatent: latents as files. */
#include "nodes/metadata.h"
#include "nodes/node.h"
#include "nodes/output.h"

enum { SAMPLES, FILENAME_PREFIX };
static const graft_input *const inputs[] = {
    [SAMPLES] = IN_OBJECT("samples", "LATENT", "The latents to save."),
    [FILENAME_PREFIX] = IN_TEXT("filename_prefix", "latents/ComfyUI",
                                "How the file's name begins, with its sub-folder; a number "
                                "follows."),
    NULL};
static const graft_output *const outputs[] = {NULL};

static graft_status run(graft_call *c)
{
    graft_metadata metadata = GRAFT_METADATA_INIT;
    graft_output_file file = {NULL, NULL, NULL};
    graft_status st;
    if (c->task.compile_only) return GRAFT_OK;
    graft_call_phase(c, "save");
    GRAFT_TRY(graft_metadata_read(c, &metadata));
    GRAFT_TRY(graft_output_reserve(c, "output", graft_arg_text(c, FILENAME_PREFIX), ".latent", 0, 0,
                                   &file));
    GRAFT_TRY(graft_latent_save(graft_arg_latent(c, SAMPLES), file.path,
                                (const char *const *)metadata.pairs, &c->err));
    GRAFT_TRY(graft_output_show(c, "latents", "output", &file));
out:
    graft_output_finish(c, &file);
    graft_metadata_finish(&metadata);
    return st;
}

QUERY_PREFIX()

GRAFT_NODE(save_latent, .id = "SaveLatent", .title = "SaveLatent", .category = "_for_testing",
           .flags = GRAFT_NODE_OUTPUT,
           .description = "Saves latents in the output folder. Move the file to the input folder "
                          "to load it again.",
           .query = query);
