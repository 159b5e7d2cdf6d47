/* SetUnionControlNetType: which type of pictures a union ControlNet is to follow. */
#include "nodes/node.h"

enum { CONTROL_NET, TYPE };
static const graft_input *const inputs[] = {
    [CONTROL_NET] = IN_OBJECT("control_net", "CONTROL_NET",
                              "A union ControlNet, which follows several types of pictures. One "
                              "for a single type stays as it is."),
    [TYPE] = IN_CHOICE("type", CHOICES(GRAFT_CONTROLNET_TYPES),
                       "What the pictures for it show. With auto it is not told, and goes by the "
                       "picture alone. Only those with 8 types (promax) know tile and repaint."),
    NULL};
static const graft_output *const outputs[] = {
    OUT("CONTROL_NET", "CONTROL_NET", "The ControlNet for such pictures; for Apply ControlNet."),
    NULL};

static graft_status run(graft_call *c)
{
    graft_controlnet *net = NULL;
    graft_call_blame(c, TYPE);
    graft_status st = graft_controlnet_with_type(graft_arg_controlnet(c, CONTROL_NET),
                                                 graft_arg_text(c, TYPE), &c->task, &net, &c->err);
    return st != GRAFT_OK ? st : graft_call_out_controlnet(c, 0, net);
}

GRAFT_NODE(set_union_control_net_type, .id = "SetUnionControlNetType",
           .title = "SetUnionControlNetType", .category = "conditioning/controlnet",
           .description = "Tells a union ControlNet what its pictures show: a pose, depth, lines. "
                          "Changing the type loads and compiles nothing; for several types chain "
                          "several of these, each with its own Apply ControlNet.");
