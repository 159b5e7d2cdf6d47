/* PrimitiveBoolean: a switch to share between nodes. */
#include "nodes/node.h"

enum { VALUE };
static const graft_input *const inputs[] = {
    [VALUE] = IN_BOOL("value", false, "On or off. Connect it to every input that should have it."),
    NULL};
static const graft_output *const outputs[] = {OUT("BOOLEAN", "BOOLEAN", "The switch."), NULL};

static graft_status run(graft_call *c)
{
    return graft_call_out_bool(c, 0, graft_arg_bool(c, VALUE));
}

GRAFT_NODE(primitive_boolean, .id = "PrimitiveBoolean", .title = "Boolean",
           .category = "utils/primitive", .description = "A switch that several nodes can share.");
