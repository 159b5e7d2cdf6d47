/* CustomCombo: one of several texts, and which of them it is. */
#include "nodes/node.h"

enum { CHOICE, INDEX };
static const graft_input *const inputs[] = {
    [CHOICE] =
        IN_TEXT("choice", NULL,
                "The text that is chosen. In ComfyUI's editor it is one of the node's options "
                "(option1, option2, …), which say nothing here."),
    [INDEX] = IN_INT("index", 0, -9007199254740991.0, 9007199254740991.0, 1,
                     "Which of the options it is, from 0; ComfyUI's editor fills it in. Any number "
                     "is passed on.",
                     .flags = GRAFT_INPUT_OPTIONAL),
    NULL};
static const graft_output *const outputs[] = {
    OUT("STRING", "STRING", "The text that is chosen."),
    OUT("INDEX", "INT", "Which of the options it is, from 0."), NULL};

static graft_status run(graft_call *c)
{
    graft_status st = graft_call_out_text(c, 0, graft_arg_text(c, CHOICE));
    return st ? st : graft_call_out_i64(c, 1, graft_arg_i64(c, INDEX));
}

GRAFT_NODE(custom_combo, .id = "CustomCombo", .title = "Custom Combo", .category = "utils",
           .flags = GRAFT_NODE_EXPERIMENTAL,
           .description =
               "Gives a text that was chosen among several, and its place among them, for "
               "example the name and the number of a preset.");
