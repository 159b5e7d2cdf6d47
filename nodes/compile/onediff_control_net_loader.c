/* OneDiffControlNetLoader: ControlNetLoader by OneDiff's name. */
#include "nodes/controls/controlnet.h"
#include "nodes/node.h"

enum { CONTROL_NET_NAME = GRAFT_CONTROLNET_NAME, CUSTOM_BOOSTER };
static const graft_input *const inputs[] = {
    [CONTROL_NET_NAME] = &graft_controlnet_name,
    [CUSTOM_BOOSTER] = IN_OBJECT("custom_booster", "CUSTOM_BOOSTER",
                                 "Has no effect: a ControlNet is compiled with its model's "
                                 "options.",
                                 .flags = GRAFT_INPUT_OPTIONAL),
    NULL};
static const graft_output *const outputs[] = {&graft_controlnet_out, NULL};

static graft_status run(graft_call *c)
{
    return graft_controlnet_run(c, GRAFT_CONTROLNET_NAME, NULL);
}

GRAFT_NODE(onediff_control_net_loader, .id = "OneDiffControlNetLoader",
           .title = "Load ControlNet Model - OneDiff", .category = "OneDiff/Loaders",
           .flags = GRAFT_NODE_DEPRECATED,
           .description = "For workflows made for OneDiff. In new ones use Load ControlNet Model: "
                          "a ControlNet is compiled together with the model that it steers.",
           .query = graft_controlnet_query);
