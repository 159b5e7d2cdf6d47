/* PrimitiveInt: a number to share between nodes. */
#include "nodes/node.h"

enum { VALUE };
static const graft_input *const inputs[] = {
    [VALUE] = IN_INT("value", 0, -9223372036854775807.0, 9223372036854775807.0, 0,
                     "The number. Connect it to every input that should have it.",
                     .flags = GRAFT_INPUT_SEED),
    NULL};
static const graft_output *const outputs[] = {OUT("INT", "INT", "The number."), NULL};

static graft_status run(graft_call *c)
{
    return graft_call_out_i64(c, 0, graft_arg_i64(c, VALUE));
}

GRAFT_NODE(primitive_int, .id = "PrimitiveInt", .title = "Int", .category = "utils/primitive",
           .description = "A whole number that several nodes can share.");
