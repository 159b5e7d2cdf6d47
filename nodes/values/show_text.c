/* ShowText|pysssss: a text on a node, and the same text again. */
#include "nodes/call/output.h"
#include "nodes/node.h"

enum { TEXT };
static const graft_input *const inputs[] = {
    [TEXT] = IN_TEXT("text", NULL, "The text to show.", .flags = GRAFT_INPUT_SOCKET), NULL};
static const graft_output *const outputs[] = {OUT("STRING", "STRING", "The same text."), NULL};

static graft_status run(graft_call *c)
{
    const char *text = graft_arg_text(c, TEXT);
    graft_status st = graft_output_show_text(c, text);
    return st ? st : graft_call_out_text(c, 0, text);
}

GRAFT_NODE(show_text, .id = "ShowText|pysssss", .title = "Show Text", .category = "utils",
           .flags = GRAFT_NODE_OUTPUT,
           .description =
               "Shows a text and passes it on. It is pysssss' node, which many workflows "
               "have; Preview Any does the same.");
