/* StringContains: whether a text has another one in it. */
#include "nodes/node.h"
#include "nodes/values/text_pair.h"

enum { STRING, SUBSTRING, CASE_SENSITIVE };
static const graft_input *const inputs[] = {
    [STRING] = IN_TEXT("string", NULL, "The text to look into.", .flags = GRAFT_INPUT_MULTILINE),
    [SUBSTRING] = IN_TEXT("substring", NULL, "What to look for.", .flags = GRAFT_INPUT_MULTILINE),
    [CASE_SENSITIVE] =
        IN_BOOL("case_sensitive", true, "Whether large and small letters are different ones."),
    NULL};
static const graft_output *const outputs[] = {
    OUT("contains", "BOOLEAN", "Whether it is somewhere in the text."), NULL};

static graft_status run(graft_call *c)
{
    graft_text_pair p;
    graft_status st = graft_text_pair_init(&p, c, STRING, SUBSTRING, CASE_SENSITIVE);
    if (st == GRAFT_OK) st = graft_call_out_bool(c, 0, strstr(p.a, p.b) != NULL);
    graft_text_pair_finish(&p);
    return st;
}

GRAFT_NODE(string_contains, .id = "StringContains", .title = "Contains", .category = "utils/string",
           .description = "Tells whether a text has some words in it.");
