/* ControlNetLoader: a ControlNet, a Control-LoRA or a T2I-Adapter from a file. */
#include "nodes/controls/controlnet.h"
#include "nodes/node.h"

static const graft_input *const inputs[] = {&graft_controlnet_name, NULL};
static const graft_output *const outputs[] = {&graft_controlnet_out, NULL};

static graft_status run(graft_call *c)
{
    return graft_controlnet_run(c, GRAFT_CONTROLNET_NAME, NULL);
}

GRAFT_NODE(control_net_loader, .id = "ControlNetLoader", .title = "Load ControlNet Model",
           .category = "loaders",
           .description = "Opens a ControlNet: a model that makes pictures follow another picture, "
                          "such as outlines or a pose. It must be made for the family of the "
                          "checkpoint that it goes with. Control-LoRAs and T2I-Adapters are opened "
                          "and applied in the same way.",
           .query = graft_controlnet_query);
