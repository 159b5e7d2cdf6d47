/* GLIGENTextBoxApply: a text for a box in the picture, beside a prompt. */
#include "nodes/node.h"

enum { CONDITIONING_TO, CLIP, GLIGEN_TEXTBOX_MODEL, TEXT, WIDTH, HEIGHT, X, Y };
static const graft_input *const inputs[] = {
    [CONDITIONING_TO] = IN_OBJECT("conditioning_to", "CONDITIONING",
                                  "The prompt that is to have the box, beside those that it has. "
                                  "It should speak of what is in it, too."),
    [CLIP] = IN_OBJECT("clip", "CLIP", "The text encoder of the model that will sample."),
    [GLIGEN_TEXTBOX_MODEL] =
        IN_OBJECT("gligen_textbox_model", "GLIGEN", "The GLIGEN: one for all boxes of a picture."),
    [TEXT] = IN_PROMPT("text", "What is to be in the box, in a few words, as a prompt says it."),
    [WIDTH] = IN_INT("width", 64, 8, 16384, 8, "Width of the box in pixels."),
    [HEIGHT] = IN_INT("height", 64, 8, 16384, 8, "Height of the box in pixels."),
    [X] = IN_INT("x", 0, 0, 16384, 8, "Pixels from the left edge of the picture to the box."),
    [Y] = IN_INT("y", 0, 0, 16384, 8, "Pixels from the top edge of the picture to the box."),
    NULL};
static const graft_output *const outputs[] = {
    OUT("CONDITIONING", "CONDITIONING", "The prompt, with the box."), NULL};

static graft_status run(graft_call *c)
{
    const graft_area box = {.x = (double)graft_arg_i64(c, X),
                            .y = (double)graft_arg_i64(c, Y),
                            .width = (double)graft_arg_i64(c, WIDTH),
                            .height = (double)graft_arg_i64(c, HEIGHT)};
    graft_cond *cond = NULL;
    graft_call_phase(c, "encode");
    graft_status st = graft_cond_box(graft_arg_cond(c, CONDITIONING_TO), graft_arg_clip(c, CLIP),
                                     graft_arg_gligen(c, GLIGEN_TEXTBOX_MODEL),
                                     graft_arg_text(c, TEXT), &box, &c->task, &cond, &c->err);
    return st != GRAFT_OK ? st : graft_call_out_cond(c, 0, cond);
}

QUERY_PROMPTS(TEXT, 1)

GRAFT_NODE(gligen_text_box_apply, .id = "GLIGENTextBoxApply", .title = "GLIGENTextBoxApply",
           .category = "conditioning/gligen",
           .description = "Says what is to be where in the picture: a text for a box, by a GLIGEN. "
                          "Another text, place or number of boxes compiles nothing anew.",
           .query = query);
