/* PrimitiveStringMultiline: a text of several lines to share between nodes. */
#include "nodes/node.h"

enum { VALUE };
static const graft_input *const inputs[] = {
    [VALUE] = IN_TEXT("value", NULL, "The text. Connect it to every input that should have it.",
                      .flags = GRAFT_INPUT_MULTILINE),
    NULL};
static const graft_output *const outputs[] = {OUT("STRING", "STRING", "The text."), NULL};

static graft_status run(graft_call *c)
{
    return graft_call_out_text(c, 0, graft_arg_text(c, VALUE));
}

GRAFT_NODE(
    primitive_string_multiline, .id = "PrimitiveStringMultiline", .title = "String (Multiline)",
    .category = "utils/primitive",
    .description = "A text of several lines that several nodes can share, such as a prompt.");
