/* DiffControlNetLoader: a ControlNet from a file that holds differences from a model. */
#include "base/alloc.h"
#include "nodes/node.h"
#include "nodes/plugin.h"

enum { MODEL, CONTROL_NET_NAME };
static const graft_input *const inputs[] = {
    [MODEL] = IN_OBJECT("model", "MODEL",
                        "The model that the ControlNet is to steer. Its weights are added to the "
                        "file's, with its LoRAs and merges."),
    [CONTROL_NET_NAME] =
        IN_CHOICE("control_net_name", NULL,
                  "The file with the differences. Put .safetensors files into models/controlnet."),
    NULL};
static const graft_output *const outputs[] = {
    OUT("CONTROL_NET", "CONTROL_NET", "Steers sampling by a picture; for Apply ControlNet."), NULL};

static graft_status run(graft_call *c)
{
    graft_engine *engine;
    graft_controlnet *net = NULL;
    char *path = NULL;
    graft_status st;
    graft_call_phase(c, "load");
    GRAFT_TRY(graft_nodes_engine(&engine, &c->err));
    GRAFT_TRY(graft_files_of_input(c, CONTROL_NET_NAME, "controlnet", &path));
    GRAFT_TRY(graft_controlnet_load_diff(engine, path, graft_arg_model(c, MODEL), &c->task, &net,
                                         &c->err));
    GRAFT_TRY(graft_call_out_controlnet(c, 0, net));
out:
    graft_free(path);
    return st;
}

QUERY_MODEL_FILE("controlnet", CONTROL_NET_NAME)

GRAFT_NODE(diff_control_net_loader, .id = "DiffControlNetLoader",
           .title = "Load ControlNet Model (diff)", .category = "loaders",
           .description = "Opens a ControlNet whose file holds only what training changed in a "
                          "copy of a model, and takes the rest from the model. Load ControlNet "
                          "Model opens files that hold all of it.",
           .query = query);
