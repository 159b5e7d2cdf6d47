/* PrimitiveFloat: a number to share between nodes. */
#include "nodes/node.h"

enum { VALUE };
static const graft_input *const inputs[] = {
    [VALUE] = IN_FLOAT("value", 0.0, -9223372036854775807.0, 9223372036854775807.0, 0,
                       "The number. Connect it to every input that should have it."),
    NULL};
static const graft_output *const outputs[] = {OUT("FLOAT", "FLOAT", "The number."), NULL};

static graft_status run(graft_call *c)
{
    return graft_call_out_f64(c, 0, graft_arg_f64(c, VALUE));
}

GRAFT_NODE(primitive_float, .id = "PrimitiveFloat", .title = "Float", .category = "utils/primitive",
           .description = "A number with a fraction that several nodes can share.");
