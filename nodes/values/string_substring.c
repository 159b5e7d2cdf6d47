/* StringSubstring: a part of a text. */
#include "nodes/node.h"

enum { STRING, START, END };
static const graft_input *const inputs[] = {
    [STRING] =
        IN_TEXT("string", NULL, "The text to take a part of.", .flags = GRAFT_INPUT_MULTILINE),
    [START] = IN_INT("start", 0, 0, 0, 0,
                     "The first character that is taken, counted from 0; a negative number counts "
                     "from the end."),
    [END] = IN_INT("end", 0, 0, 0, 0,
                   "The character before which it ends, counted the same way: -1 leaves the last "
                   "one out."),
    NULL};
static const graft_output *const outputs[] = {OUT("STRING", "STRING", "The part."), NULL};

static graft_status run(graft_call *c)
{
    char *text = NULL;
    graft_status st = graft_text_part(graft_arg_text(c, STRING), graft_arg_i64(c, START),
                                      graft_arg_i64(c, END), &text, &c->err);
    if (st == GRAFT_OK) st = graft_call_out_text(c, 0, text);
    graft_text_free(text);
    return st;
}

GRAFT_NODE(string_substring, .id = "StringSubstring", .title = "Substring",
           .category = "utils/string",
           .description = "Cuts a part out of a text, by the places of its characters.");
