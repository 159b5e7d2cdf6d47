/* unCLIPCheckpointLoader: the four parts of an unCLIP checkpoint. */
#include "base/alloc.h"
#include "nodes/call/state.h"
#include "nodes/node.h"

enum { CKPT_NAME };
static const graft_input *const inputs[] = {
    [CKPT_NAME] = IN_CHOICE("ckpt_name", NULL,
                            "The checkpoint file. Put .safetensors files into models/checkpoints."),
    NULL};
static const graft_output *const outputs[] = {
    OUT("MODEL", "MODEL", "The diffusion model, for a sampler."),
    OUT("CLIP", "CLIP", "The text encoder, for prompts."),
    OUT("VAE", "VAE", "Turns pictures into latents and back."),
    OUT("CLIP_VISION", "CLIP_VISION", "The encoder of pictures, for CLIPVisionEncode."), NULL};

static graft_status run(graft_call *c)
{
    graft_engine *engine;
    graft_model *model = NULL;
    graft_clip *clip = NULL;
    graft_vae *vae = NULL;
    graft_vision *vision = NULL;
    char *path = NULL;
    graft_status st;
    graft_call_phase(c, "load");
    GRAFT_TRY(graft_nodes_engine(&engine, &c->err));
    GRAFT_TRY(graft_arg_file(c, CKPT_NAME, "checkpoints", &path));
    GRAFT_TRY(graft_vision_load(engine, path, &c->task, &vision, &c->err));
    GRAFT_TRY(graft_checkpoint_load(engine, path, &c->task, &model, &clip, &vae, &c->err));
    st = graft_call_out_model(c, 0, model);
    /* Each call takes its object over, so all four are made even after a failure. */
    graft_status st_clip = graft_call_out_clip(c, 1, clip), st_vae = graft_call_out_vae(c, 2, vae);
    graft_status st_vision = graft_call_out_vision(c, 3, vision);
    vision = NULL;
    if (st == GRAFT_OK) st = st_clip != GRAFT_OK ? st_clip : st_vae;
    if (st == GRAFT_OK) st = st_vision;
out:
    graft_vision_release(vision);
    graft_free(path);
    return st;
}

QUERY_MODEL_FILE("checkpoints", CKPT_NAME)

GRAFT_NODE(unclip_checkpoint_loader, .id = "unCLIPCheckpointLoader",
           .title = "unCLIPCheckpointLoader", .category = "loaders",
           .description = "Opens a checkpoint that has an encoder of pictures, too, such as those "
                          "of Stable Diffusion 2.1 unCLIP.",
           .query = query);
