/* StringLength: how long a text is. */
#include "nodes/node.h"

enum { STRING };
static const graft_input *const inputs[] = {
    [STRING] = IN_TEXT("string", NULL, "The text to measure.", .flags = GRAFT_INPUT_MULTILINE),
    NULL};
static const graft_output *const outputs[] = {
    OUT("length", "INT", "How many characters it has, spaces and line ends among them."), NULL};

static graft_status run(graft_call *c)
{
    return graft_call_out_i64(c, 0, graft_text_length(graft_arg_text(c, STRING)));
}

GRAFT_NODE(string_length, .id = "StringLength", .title = "Length", .category = "utils/string",
           .description = "Counts the characters of a text.");
