/* StringReplace: other words in a text. */
#include "nodes/node.h"

enum { STRING, FIND, REPLACE };
static const graft_input *const inputs[] = {
    [STRING] = IN_TEXT("string", NULL, "The text to change.", .flags = GRAFT_INPUT_MULTILINE),
    [FIND] =
        IN_TEXT("find", NULL, "What to look for, letter by letter; large and small letters differ.",
                .flags = GRAFT_INPUT_MULTILINE),
    [REPLACE] = IN_TEXT("replace", NULL, "What stands there instead, wherever it was.",
                        .flags = GRAFT_INPUT_MULTILINE),
    NULL};
static const graft_output *const outputs[] = {OUT("STRING", "STRING", "The changed text."), NULL};

static graft_status run(graft_call *c)
{
    char *text = NULL;
    graft_status st = graft_text_replace(graft_arg_text(c, STRING), graft_arg_text(c, FIND),
                                         graft_arg_text(c, REPLACE), &text, &c->err);
    if (st == GRAFT_OK) st = graft_call_out_text(c, 0, text);
    graft_text_free(text);
    return st;
}

GRAFT_NODE(string_replace, .id = "StringReplace", .title = "Replace", .category = "utils/string",
           .description = "Puts other words into a text: for example a name into a prompt that "
                          "has a mark for it.");
