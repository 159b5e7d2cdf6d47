/* RegexExtract: what a regular expression finds in a text. */
#include "nodes/values/regex_inputs.h"

enum { STRING, REGEX_PATTERN, MODE, CASE_INSENSITIVE, MULTILINE, DOTALL, GROUP_INDEX };
static const graft_input *const inputs[] = {
    [STRING] = IN_TEXT("string", NULL, "The text to look into.", .flags = GRAFT_INPUT_MULTILINE),
    [REGEX_PATTERN] = IN_PATTERN(),
    [MODE] = IN_CHOICE("mode", CHOICES("First Match", "All Matches", "First Group", "All Groups"),
                       "What comes out: the first match, or all, one a line; or of them the "
                       "group alone. All Matches of an expression with groups are their first."),
    [CASE_INSENSITIVE] = IN_ANY_CASE(0),
    [MULTILINE] = IN_MULTILINE(0),
    [DOTALL] = IN_DOTALL(0),
    [GROUP_INDEX] = IN_INT("group_index", 1, 0, 100, 0,
                           "Which group: the how manieth in parentheses, from 1; 0 is the whole "
                           "match."),
    NULL};
static const graft_output *const outputs[] = {
    OUT("STRING", "STRING", "What was found; nothing when there is none."), NULL};

/* The group that counts; -1: none. */
static int64_t group_of(const graft_call *c, int64_t groups)
{
    if (graft_arg_is(c, MODE, "First Match")) return 0;
    if (graft_arg_is(c, MODE, "All Matches")) return groups > 0;
    if (graft_arg_is(c, MODE, "All Groups") && !groups) return -1;
    return graft_arg_i64(c, GROUP_INDEX);
}

static graft_status run(graft_call *c)
{
    const bool all = graft_arg_is(c, MODE, "All Matches") || graft_arg_is(c, MODE, "All Groups");
    graft_regex *regex = NULL;
    char *text = NULL;
    graft_status st;
    GRAFT_TRY(graft_regex_or_none(c, REGEX_PATTERN, CASE_INSENSITIVE, &regex));
    if (regex)
        GRAFT_TRY(graft_regex_extract(regex, graft_arg_text(c, STRING),
                                      group_of(c, graft_regex_groups(regex)), all, &text, &c->err));
    GRAFT_TRY(graft_call_out_text(c, 0, text ? text : ""));
out:
    graft_text_free(text);
    graft_regex_destroy(regex);
    return st;
}

GRAFT_NODE(regex_extract, .id = "RegexExtract", .title = "Regex Extract",
           .category = "utils/string",
           .description = "Takes out of a text what a regular expression stands for.");
