/* UpscaleModelLoader: a model that enlarges pictures, from a file. */
#include "base/alloc.h"
#include "nodes/call/state.h"
#include "nodes/node.h"

enum { MODEL_NAME };
static const graft_input *const inputs[] = {
    [MODEL_NAME] =
        IN_CHOICE("model_name", NULL,
                  "The upscale model's file. Put .safetensors files into models/upscale_models."),
    NULL};
static const graft_output *const outputs[] = {
    OUT("UPSCALE_MODEL", "UPSCALE_MODEL", "For Upscale Image (using Model)."), NULL};

static graft_status run(graft_call *c)
{
    graft_engine *engine;
    graft_upscaler *upscaler = NULL;
    char *path = NULL;
    graft_status st;
    graft_call_phase(c, "load");
    GRAFT_TRY(graft_nodes_engine(&engine, &c->err));
    GRAFT_TRY(graft_arg_file(c, MODEL_NAME, "upscale_models", &path));
    GRAFT_TRY(graft_upscaler_load(engine, path, &c->task, &upscaler, &c->err));
    GRAFT_TRY(graft_call_out_upscaler(c, 0, upscaler));
out:
    graft_free(path);
    return st;
}

QUERY_MODEL_FILE("upscale_models", MODEL_NAME)

GRAFT_NODE(upscale_model_loader, .id = "UpscaleModelLoader", .title = "Load Upscale Model",
           .category = "loaders",
           .description = "Opens a model that enlarges pictures: ESRGAN and Real-ESRGAN's RRDBNet, "
                          "or their compact SRVGGNet.",
           .query = query);
