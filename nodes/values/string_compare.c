/* StringCompare: whether a text begins or ends with another one, or is the same. */
#include "base/str.h"
#include "nodes/node.h"
#include "nodes/values/text_pair.h"

enum { STRING_A, STRING_B, MODE, CASE_SENSITIVE };
static const graft_input *const inputs[] = {
    [STRING_A] = IN_TEXT("string_a", NULL, "The text to look at.", .flags = GRAFT_INPUT_MULTILINE),
    [STRING_B] =
        IN_TEXT("string_b", NULL, "What it is compared with.", .flags = GRAFT_INPUT_MULTILINE),
    [MODE] = IN_CHOICE("mode", CHOICES("Starts With", "Ends With", "Equal"),
                       "What is asked: whether the first text begins with the second, ends with "
                       "it, or is the same."),
    [CASE_SENSITIVE] =
        IN_BOOL("case_sensitive", true, "Whether large and small letters are different ones."),
    NULL};
static const graft_output *const outputs[] = {OUT("BOOLEAN", "BOOLEAN", "The answer."), NULL};

static bool answer(const graft_call *c, const char *a, const char *b)
{
    if (graft_arg_is(c, MODE, "Starts With")) return graft_str_starts(a, b);
    return graft_arg_is(c, MODE, "Ends With") ? graft_str_ends(a, b) : strcmp(a, b) == 0;
}

static graft_status run(graft_call *c)
{
    graft_text_pair p;
    graft_status st = graft_text_pair_init(&p, c, STRING_A, STRING_B, CASE_SENSITIVE);
    if (st == GRAFT_OK) st = graft_call_out_bool(c, 0, answer(c, p.a, p.b));
    graft_text_pair_finish(&p);
    return st;
}

GRAFT_NODE(string_compare, .id = "StringCompare", .title = "Compare", .category = "utils/string",
           .description = "Compares two texts: their beginnings, their ends, or all of them.");
