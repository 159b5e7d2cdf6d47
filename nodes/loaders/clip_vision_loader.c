/* CLIPVisionLoader: an encoder of pictures, from a file. */
#include "base/alloc.h"
#include "nodes/call/state.h"
#include "nodes/node.h"

enum { CLIP_NAME };
static const graft_input *const inputs[] = {
    [CLIP_NAME] = IN_CHOICE("clip_name", NULL,
                            "The encoder's file. Put .safetensors files into models/clip_vision."),
    NULL};
static const graft_output *const outputs[] = {
    OUT("CLIP_VISION", "CLIP_VISION", "For CLIPVisionEncode."), NULL};

static graft_status run(graft_call *c)
{
    graft_engine *engine;
    graft_vision *vision = NULL;
    char *path = NULL;
    graft_status st;
    graft_call_phase(c, "load");
    GRAFT_TRY(graft_nodes_engine(&engine, &c->err));
    GRAFT_TRY(graft_arg_file(c, CLIP_NAME, "clip_vision", &path));
    GRAFT_TRY(graft_vision_load(engine, path, &c->task, &vision, &c->err));
    GRAFT_TRY(graft_call_out_vision(c, 0, vision));
out:
    graft_free(path);
    return st;
}

QUERY_MODEL_FILE("clip_vision", CLIP_NAME)

GRAFT_NODE(clip_vision_loader, .id = "CLIPVisionLoader", .title = "Load CLIP Vision",
           .category = "loaders",
           .description = "Opens an encoder of pictures: CLIP's ViT-L, ViT-H or ViT-bigG, or "
                          "SigLIP's so400m, which FLUX.1 Redux is for.",
           .query = query);
