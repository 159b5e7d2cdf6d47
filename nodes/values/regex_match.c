/* RegexMatch: whether a text has what a regular expression stands for. */
#include "nodes/values/regex_inputs.h"

enum { STRING, REGEX_PATTERN, CASE_INSENSITIVE, MULTILINE, DOTALL };
static const graft_input *const inputs[] = {
    [STRING] = IN_TEXT("string", NULL, "The text to look into.", .flags = GRAFT_INPUT_MULTILINE),
    [REGEX_PATTERN] = IN_PATTERN(),
    [CASE_INSENSITIVE] = IN_ANY_CASE(0),
    [MULTILINE] = IN_MULTILINE(0),
    [DOTALL] = IN_DOTALL(0),
    NULL};
static const graft_output *const outputs[] = {
    OUT("matches", "BOOLEAN", "Whether it is somewhere in the text."), NULL};

static graft_status run(graft_call *c)
{
    graft_regex *regex = NULL;
    bool found = false;
    graft_status st;
    GRAFT_TRY(graft_regex_or_none(c, REGEX_PATTERN, CASE_INSENSITIVE, &regex));
    if (regex) GRAFT_TRY(graft_regex_search(regex, graft_arg_text(c, STRING), &found, &c->err));
    GRAFT_TRY(graft_call_out_bool(c, 0, found));
out:
    graft_regex_destroy(regex);
    return st;
}

GRAFT_NODE(regex_match, .id = "RegexMatch", .title = "Regex Match", .category = "utils/string",
           .description = "Tells whether a text has what a regular expression stands for.");
