/* LoadLatent: latents from a file. */
#include "base/alloc.h"
#include "nodes/node.h"

enum { LATENT };
static const graft_input *const inputs[] = {
    [LATENT] = IN_CHOICE("latent", NULL, "A .latent file in the input folder."), NULL};
static const graft_output *const outputs[] = {OUT("LATENT", "LATENT", "The latents of the file."),
                                              NULL};

static graft_status run(graft_call *c)
{
    graft_latent *latent = NULL;
    char *path = NULL;
    graft_status st;
    graft_call_phase(c, "load");
    GRAFT_TRY(graft_arg_file(c, LATENT, "input", &path));
    GRAFT_TRY(graft_latent_load(path, &latent, &c->err));
    GRAFT_TRY(graft_call_out_latent(c, 0, latent));
out:
    graft_free(path);
    return st;
}

static const char *const suffixes[] = {".latent", NULL};
QUERY_INPUT_FILE(LATENT, suffixes, "Invalid latent file")

GRAFT_NODE(load_latent, .id = "LoadLatent", .title = "LoadLatent", .category = "_for_testing",
           .description = "Opens latents that were saved before.", .query = query);
