/* ControlnetSpeedup, a name of OneDiff: nothing is left to do, since a ControlNet is compiled with
 * the options of the model that it steers. */
#include "nodes/node.h"

enum { CONTROL_NET, INPLACE, CUSTOM_BOOSTER };
static const graft_input *const inputs[] = {
    [CONTROL_NET] = IN_OBJECT("control_net", "CONTROL_NET", "The ControlNet to pass on."),
    [INPLACE] = IN_BOOL("inplace", true, "Has no effect: a ControlNet is never changed.",
                        .flags = GRAFT_INPUT_OPTIONAL),
    [CUSTOM_BOOSTER] = IN_OBJECT("custom_booster", "CUSTOM_BOOSTER",
                                 "Has no effect: a ControlNet is compiled with its model's "
                                 "options.",
                                 .flags = GRAFT_INPUT_OPTIONAL),
    NULL};
static const graft_output *const outputs[] = {
    OUT("CONTROL_NET", "CONTROL_NET", "The same ControlNet."), NULL};

static graft_status run(graft_call *c)
{
    return graft_call_out_controlnet(c, 0,
                                     graft_controlnet_retain(graft_arg_controlnet(c, CONTROL_NET)));
}

GRAFT_NODE(controlnet_speedup, .id = "ControlnetSpeedup", .title = "ControlNet Speedup",
           .category = "OneDiff", .flags = GRAFT_NODE_DEPRECATED,
           .description = "For workflows made for OneDiff; does nothing. Put Compile Model after "
                          "the model instead: its ControlNets are compiled with it.");
