/* StringConcatenate: two texts in a row. */
#include "base/alloc.h"
#include "base/str.h"
#include "nodes/node.h"

enum { STRING_A, STRING_B, DELIMITER };
static const graft_input *const inputs[] = {
    [STRING_A] = IN_TEXT("string_a", NULL, "The first text.", .flags = GRAFT_INPUT_MULTILINE),
    [STRING_B] = IN_TEXT("string_b", NULL, "The text behind it.", .flags = GRAFT_INPUT_MULTILINE),
    [DELIMITER] = IN_TEXT("delimiter", "", "What comes between them, such as a comma and a space."),
    NULL};
static const graft_output *const outputs[] = {OUT("STRING", "STRING", "Both texts as one."), NULL};

static graft_status run(graft_call *c)
{
    graft_str all = GRAFT_STR_INIT;
    graft_str_puts(&all, graft_arg_text(c, STRING_A));
    graft_str_puts(&all, graft_arg_text(c, DELIMITER));
    graft_str_puts(&all, graft_arg_text(c, STRING_B));
    char *text = graft_str_take(&all);
    graft_str_finish(&all);
    if (!text) return graft_fail_nomem(&c->err, "a text");
    graft_status st = graft_call_out_text(c, 0, text);
    graft_free(text);
    return st;
}

GRAFT_NODE(string_concatenate, .id = "StringConcatenate", .title = "Concatenate",
           .category = "utils/string",
           .description = "Puts two texts together, for example a prompt and the style that all "
                          "prompts of a workflow share.");
