/* ConditioningSetArea: a prompt for a part of the picture, in pixels. */
#include "nodes/node.h"

enum { CONDITIONING, WIDTH, HEIGHT, X, Y, STRENGTH };
static const graft_input *const inputs[] = {
    [CONDITIONING] = IN_OBJECT("conditioning", "CONDITIONING", "The prompt to place."),
    [WIDTH] = IN_INT("width", 64, 64, 16384, 8, "Width of the area in pixels."),
    [HEIGHT] = IN_INT("height", 64, 64, 16384, 8, "Height of the area in pixels."),
    [X] = IN_INT("x", 0, 0, 16384, 8, "Pixels from the left edge of the picture to the area."),
    [Y] = IN_INT("y", 0, 0, 16384, 8, "Pixels from the top edge of the picture to the area."),
    [STRENGTH] = IN_FLOAT("strength", 1.0, 0.0, 10.0, 0.01,
                          "How much the prompt counts beside others that lie in the same place."),
    NULL};
static const graft_output *const outputs[] = {
    OUT("CONDITIONING", "CONDITIONING", "The prompt, in its area only."), NULL};

static graft_status run(graft_call *c)
{
    const graft_area area = {.x = (double)graft_arg_i64(c, X),
                             .y = (double)graft_arg_i64(c, Y),
                             .width = (double)graft_arg_i64(c, WIDTH),
                             .height = (double)graft_arg_i64(c, HEIGHT)};
    graft_cond *cond = NULL;
    graft_status st = graft_cond_area(graft_arg_cond(c, CONDITIONING), &area,
                                      graft_arg_f64(c, STRENGTH), &cond, &c->err);
    return st != GRAFT_OK ? st : graft_call_out_cond(c, 0, cond);
}

GRAFT_NODE(conditioning_set_area, .id = "ConditioningSetArea", .title = "Conditioning (Set Area)",
           .category = "conditioning",
           .description = "Draws a prompt in a part of the picture, as if that were a picture of "
                          "its own. Combine it with prompts for the rest.");
