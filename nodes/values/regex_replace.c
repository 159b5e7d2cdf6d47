/* RegexReplace: other words where a regular expression finds some. */
#include "nodes/values/regex_inputs.h"

enum { STRING, REGEX_PATTERN, REPLACE, CASE_INSENSITIVE, MULTILINE, DOTALL, COUNT };
static const graft_input *const inputs[] = {
    [STRING] = IN_TEXT("string", NULL, "The text to change.", .flags = GRAFT_INPUT_MULTILINE),
    [REGEX_PATTERN] = IN_PATTERN(),
    [REPLACE] = IN_TEXT("replace", NULL,
                        "What stands there instead; \\1 or \\g<1> is the first group of what was "
                        "found.",
                        .flags = GRAFT_INPUT_MULTILINE),
    [CASE_INSENSITIVE] = IN_ANY_CASE(GRAFT_INPUT_OPTIONAL),
    [MULTILINE] = IN_MULTILINE(GRAFT_INPUT_OPTIONAL),
    [DOTALL] = IN_DOTALL(GRAFT_INPUT_OPTIONAL),
    [COUNT] =
        IN_INT("count", 0, 0, 100, 0, "How many matches are replaced, from the first; 0: all.",
               .flags = GRAFT_INPUT_OPTIONAL),
    NULL};
static const graft_output *const outputs[] = {OUT("STRING", "STRING", "The changed text."), NULL};

static graft_status run(graft_call *c)
{
    graft_regex *regex = NULL;
    char *text = NULL;
    graft_status st;
    GRAFT_TRY(graft_regex_of_call(c, REGEX_PATTERN, CASE_INSENSITIVE, &regex));
    st = graft_regex_replace(regex, graft_arg_text(c, STRING), graft_arg_text(c, REPLACE),
                             graft_arg_i64(c, COUNT), &text, &c->err);
    if (st == GRAFT_E_FORMAT) graft_call_blame(c, REPLACE);
    if (st == GRAFT_OK) st = graft_call_out_text(c, 0, text);
out:
    graft_text_free(text);
    graft_regex_destroy(regex);
    return st;
}

GRAFT_NODE(regex_replace, .id = "RegexReplace", .title = "Regex Replace",
           .category = "utils/string",
           .description = "Puts other words into a text where a regular expression finds some.");
