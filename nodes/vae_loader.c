/* VAELoader: a VAE from a file of its own. */
#include "base/alloc.h"
#include "nodes/node.h"
#include "nodes/plugin.h"

enum { VAE_NAME };
static const graft_input *const inputs[] = {
    [VAE_NAME] =
        IN_CHOICE("vae_name", NULL, "The VAE's file. Put .safetensors files into models/vae."),
    NULL};
static const graft_output *const outputs[] = {
    OUT("VAE", "VAE", "Turns pictures into latents and back."), NULL};

static graft_status run(graft_call *c)
{
    graft_engine *engine;
    graft_vae *vae = NULL;
    char *path = NULL;
    graft_status st;
    graft_call_phase(c, "load");
    GRAFT_TRY(graft_nodes_engine(&engine, &c->err));
    GRAFT_TRY(graft_files_of_input(c, VAE_NAME, "vae", &path));
    GRAFT_TRY(graft_vae_load(engine, path, &c->task, &vae, &c->err));
    GRAFT_TRY(graft_call_out_vae(c, 0, vae));
out:
    graft_free(path);
    return st;
}

QUERY_MODEL_FILE("vae", VAE_NAME)

GRAFT_NODE(vae_loader, .id = "VAELoader", .title = "Load VAE", .category = "loaders",
           .description = "Opens a VAE to use instead of the one inside the checkpoint.",
           .query = query);
