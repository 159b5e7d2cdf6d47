/* SaveLatent: latents as files. */
#include "nodes/call/metadata.h"
#include "nodes/call/output.h"
#include "nodes/node.h"

enum { SAMPLES, FILENAME_PREFIX };
static const graft_input *const inputs[] = {
    [SAMPLES] = IN_OBJECT("samples", "LATENT", "The latents to save."),
    [FILENAME_PREFIX] = IN_TEXT("filename_prefix", "latents/ComfyUI",
                                "How the file's name begins, with its sub-folder; a number "
                                "follows."),
    NULL};
static const graft_output *const outputs[] = {NULL};

typedef struct latent_file {
    const graft_latent *latent;
    const graft_metadata *metadata;
} latent_file;

static graft_status write_latent(const void *what, const char *path, graft_err *e)
{
    const latent_file *f = what;
    return graft_latent_save(f->latent, path, (const char *const *)f->metadata->pairs, e);
}

static graft_status run(graft_call *c)
{
    graft_metadata metadata = GRAFT_METADATA_INIT;
    const latent_file file = {graft_arg_latent(c, SAMPLES), &metadata};
    const graft_output_place place = {"output", graft_arg_text(c, FILENAME_PREFIX), ".latent", 0,
                                      0};
    if (c->task.compile_only) return GRAFT_OK;
    graft_call_phase(c, "save");
    graft_status st = graft_metadata_read(c, &metadata);
    if (st == GRAFT_OK) st = graft_output_write(c, &place, "latents", write_latent, &file);
    graft_metadata_finish(&metadata);
    return st;
}

QUERY_PREFIX()

GRAFT_NODE(save_latent, .id = "SaveLatent", .title = "SaveLatent", .category = "_for_testing",
           .flags = GRAFT_NODE_OUTPUT,
           .description = "Saves latents in the output folder. Move the file to the input folder "
                          "to load it again.",
           .query = query);
