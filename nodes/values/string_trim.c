/* StringTrim: a text without the space around it. */
#include "nodes/node.h"

enum { STRING, MODE };
static const graft_input *const inputs[] = {
    [STRING] = IN_TEXT("string", NULL, "The text to trim.", .flags = GRAFT_INPUT_MULTILINE),
    [MODE] = IN_CHOICE("mode", CHOICES("Both", "Left", "Right"),
                       "Where spaces, tabs and line ends are taken away: at the beginning (Left), "
                       "at the end (Right), or Both."),
    NULL};
static const graft_output *const outputs[] = {OUT("STRING", "STRING", "The trimmed text."), NULL};

static graft_status run(graft_call *c)
{
    char *text = NULL;
    graft_status st = graft_text_trim(graft_arg_text(c, STRING), !graft_arg_is(c, MODE, "Right"),
                                      !graft_arg_is(c, MODE, "Left"), &text, &c->err);
    if (st == GRAFT_OK) st = graft_call_out_text(c, 0, text);
    graft_text_free(text);
    return st;
}

GRAFT_NODE(string_trim, .id = "StringTrim", .title = "Trim", .category = "utils/string",
           .description = "Takes spaces and line ends away from the beginning or end of a text.");
