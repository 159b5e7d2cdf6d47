/* CheckpointLoaderSimple: the three parts of a Stable Diffusion checkpoint. */
#include "base/alloc.h"
#include "nodes/node.h"
#include "nodes/plugin.h"

enum { CKPT_NAME };
static const graft_input *const inputs[] = {
    [CKPT_NAME] = IN_CHOICE("ckpt_name", NULL,
                            "The checkpoint file. Put .safetensors files into models/checkpoints."),
    NULL};
static const graft_output *const outputs[] = {
    OUT("MODEL", "MODEL", "The diffusion model, for a sampler."),
    OUT("CLIP", "CLIP", "The text encoder, for prompts."),
    OUT("VAE", "VAE", "Turns pictures into latents and back."), NULL};

static graft_status run(graft_call *c)
{
    graft_engine *engine;
    graft_model *model = NULL;
    graft_clip *clip = NULL;
    graft_vae *vae = NULL;
    char *path = NULL;
    graft_status st;
    graft_call_phase(c, "load");
    GRAFT_TRY(graft_nodes_engine(&engine, &c->err));
    GRAFT_TRY(graft_files_of_input(c, CKPT_NAME, "checkpoints", &path));
    GRAFT_TRY(graft_checkpoint_load(engine, path, &c->task, &model, &clip, &vae, &c->err));
    st = graft_call_out_model(c, 0, model);
    /* Each call takes its object over, so all three are made even after a failure. */
    graft_status st_clip = graft_call_out_clip(c, 1, clip);
    graft_status st_vae = graft_call_out_vae(c, 2, vae);
    if (st == GRAFT_OK) st = st_clip != GRAFT_OK ? st_clip : st_vae;
out:
    graft_free(path);
    return st;
}

QUERY_MODEL_FILE("checkpoints", CKPT_NAME)

GRAFT_NODE(checkpoint_loader_simple, .id = "CheckpointLoaderSimple", .title = "Load Checkpoint",
           .category = "loaders",
           .description = "Opens a checkpoint and gives its diffusion model, text encoder and VAE. "
                          "Weights are read when something needs them.",
           .query = query);
