#include "nodes/loaders/checkpoint_parts.h"

#include "base/alloc.h"
#include "nodes/call/state.h"
#include "nodes/node.h"

const graft_input graft_checkpoint_parts_name = INPUT_CHOICE(
    "ckpt_name", NULL, "The checkpoint file. Put .safetensors files into models/checkpoints.");
const graft_output graft_checkpoint_parts_out[3] = {
    OUTPUT("MODEL", "MODEL", "The diffusion model, for a sampler."),
    OUTPUT("CLIP", "CLIP", "The text encoder, for prompts."),
    OUTPUT("VAE", "VAE", "Turns pictures into latents and back.")};

graft_status graft_checkpoint_parts_run(graft_call *c, int name)
{
    graft_engine *engine;
    graft_model *model = NULL;
    graft_clip *clip = NULL;
    graft_vae *vae = NULL;
    char *path = NULL;
    graft_status st;
    graft_call_phase(c, "load");
    GRAFT_TRY(graft_nodes_engine(&engine, &c->err));
    GRAFT_TRY(graft_arg_file(c, name, "checkpoints", &path));
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
