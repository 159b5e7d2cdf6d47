/* CaseConverter: a text in large or small letters. */
#include "nodes/node.h"

enum { STRING, MODE };
static const char *const modes[] = {"UPPERCASE", "lowercase", "Capitalize", "Title Case", NULL};
static const graft_text_case cases[] = {GRAFT_TEXT_UPPER, GRAFT_TEXT_LOWER, GRAFT_TEXT_CAPITALIZE,
                                        GRAFT_TEXT_TITLE};
static const graft_input *const inputs[] = {
    [STRING] = IN_TEXT("string", NULL, "The text to change.", .flags = GRAFT_INPUT_MULTILINE),
    [MODE] = IN_CHOICE("mode", modes,
                       "UPPERCASE or lowercase throughout; Capitalize: the first letter of all "
                       "large; Title Case: that of each word."),
    NULL};
static const graft_output *const outputs[] = {OUT("STRING", "STRING", "The changed text."), NULL};

static graft_status run(graft_call *c)
{
    char *text = NULL;
    size_t mode = 0;
    while (modes[mode + 1] && !graft_arg_is(c, MODE, modes[mode])) mode++;
    graft_status st = graft_text_in_case(graft_arg_text(c, STRING), cases[mode], &text, &c->err);
    if (st == GRAFT_OK) st = graft_call_out_text(c, 0, text);
    graft_text_free(text);
    return st;
}

GRAFT_NODE(case_converter, .id = "CaseConverter", .title = "Case Converter",
           .category = "utils/string",
           .description = "Writes a text in large letters, in small ones, or with large first "
                          "letters.");
