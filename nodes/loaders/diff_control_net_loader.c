/* DiffControlNetLoader: a ControlNet from a file that holds differences from a model. */
#include "nodes/controls/controlnet.h"
#include "nodes/node.h"

enum { MODEL, CONTROL_NET_NAME };
static const graft_input *const inputs[] = {
    [MODEL] = IN_OBJECT("model", "MODEL",
                        "The model that the ControlNet is to steer. Its weights are added to the "
                        "file's, with its LoRAs and merges."),
    [CONTROL_NET_NAME] =
        IN_CHOICE("control_net_name", NULL,
                  "The file with the differences. Put .safetensors files into models/controlnet."),
    NULL};
static const graft_output *const outputs[] = {&graft_controlnet_out, NULL};

static graft_status run(graft_call *c)
{
    return graft_controlnet_run(c, CONTROL_NET_NAME, graft_arg_model(c, MODEL));
}

QUERY_MODEL_FILE("controlnet", CONTROL_NET_NAME)

GRAFT_NODE(diff_control_net_loader, .id = "DiffControlNetLoader",
           .title = "Load ControlNet Model (diff)", .category = "loaders",
           .description = "Opens a ControlNet whose file holds only what training changed in a "
                          "copy of a model, and takes the rest from the model. Load ControlNet "
                          "Model opens files that hold all of it.",
           .query = query);
