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
    GRAFT_TRY(graft_files_of_input(c, LATENT, "input", &path));
    GRAFT_TRY(graft_latent_load(path, &latent, &c->err));
    GRAFT_TRY(graft_call_out_latent(c, 0, latent));
out:
    graft_free(path);
    return st;
}

static char **list(const graft_host *h, const char *input)
{
    static const char *const suffixes[] = {".latent", NULL};
    (void)input;
    return graft_files_choices_of(h, "input", suffixes);
}

static graft_status fingerprint(const graft_host *h, const graft_arg *in, char *text, uint64_t n)
{
    return graft_files_fingerprint(h, "input", &in[LATENT], text, n);
}

static graft_status check(const graft_host *h, const graft_arg *in, const char **input, char *text,
                          uint64_t n)
{
    *input = inputs[LATENT]->name;
    return graft_files_validate(h, "input", &in[LATENT], "Invalid latent file", text, n);
}
QUERY_FILE()

GRAFT_NODE(load_latent, .id = "LoadLatent", .title = "LoadLatent", .category = "_for_testing",
           .description = "Opens latents that were saved before.", .query = query);
