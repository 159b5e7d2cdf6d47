#include "nodes/loaders/unet_file.h"

#include "base/alloc.h"
#include "nodes/call/state.h"
#include "nodes/node.h"

const graft_input graft_unet_file_name =
    INPUT_CHOICE("unet_name", NULL,
                 "The model file. Put .safetensors and .gguf files into models/diffusion_models; "
                 "those of diffusers (unet/diffusion_pytorch_model.safetensors) work, too.");
const graft_output graft_unet_file_out =
    OUTPUT("MODEL", "MODEL", "The diffusion model, for a sampler.");

graft_status graft_unet_file_run(graft_call *c, int name)
{
    graft_engine *engine;
    graft_model *model = NULL;
    char *path = NULL;
    graft_status st;
    graft_call_phase(c, "load");
    GRAFT_TRY(graft_nodes_engine(&engine, &c->err));
    GRAFT_TRY(graft_arg_file(c, name, "diffusion_models", &path));
    GRAFT_TRY(graft_model_load(engine, path, &c->task, &model, &c->err));
    GRAFT_TRY(graft_call_out_model(c, 0, model));
out:
    graft_free(path);
    return st;
}
