/* ModelPatchLoader: a ControlNet that is put on a model, from a file. */
#include "base/alloc.h"
#include "nodes/call/state.h"
#include "nodes/node.h"

enum { NAME };
static const graft_input *const inputs[] = {
    [NAME] = IN_CHOICE("name", NULL,
                       "The patch's file. Put .safetensors files into models/model_patches."),
    NULL};
static const graft_output *const outputs[] = {
    OUT("MODEL_PATCH", "MODEL_PATCH", "For the nodes that put it on a model."), NULL};

static graft_status run(graft_call *c)
{
    graft_engine *engine;
    graft_controlnet *net = NULL;
    char *path = NULL;
    graft_status st;
    graft_call_phase(c, "load");
    GRAFT_TRY(graft_nodes_engine(&engine, &c->err));
    GRAFT_TRY(graft_arg_file(c, NAME, "model_patches", &path));
    GRAFT_TRY(graft_model_patch_load(engine, path, &c->task, &net, &c->err));
    GRAFT_TRY(graft_call_out_model_patch(c, 0, net));
out:
    graft_free(path);
    return st;
}

QUERY_MODEL_FILE("model_patches", NAME)

GRAFT_NODE(model_patch_loader, .id = "ModelPatchLoader", .title = "ModelPatchLoader",
           .category = "advanced/loaders",
           .description = "Opens a ControlNet that is put on a model: for Z-Image "
                          "(Z-Image-Turbo-Fun-Controlnet-Union) or DiffSynth's for Qwen-Image.",
           .query = query);
