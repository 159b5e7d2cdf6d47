/* ConditioningSetAreaPercentage: a prompt for a part of the picture, in shares of it. */
#include "nodes/node.h"

enum { CONDITIONING, WIDTH, HEIGHT, X, Y, STRENGTH };
static const graft_input *const inputs[] = {
    [CONDITIONING] = IN_OBJECT("conditioning", "CONDITIONING", "The prompt to place."),
    [WIDTH] = IN_FLOAT("width", 1.0, 0.0, 1.0, 0.01, "Width of the area; 1 is the picture's."),
    [HEIGHT] = IN_FLOAT("height", 1.0, 0.0, 1.0, 0.01, "Height of the area; 1 is the picture's."),
    [X] = IN_FLOAT("x", 0.0, 0.0, 1.0, 0.01, "Where the area begins from the left; 0 is the edge."),
    [Y] = IN_FLOAT("y", 0.0, 0.0, 1.0, 0.01, "Where the area begins from the top; 0 is the edge."),
    [STRENGTH] = IN_FLOAT("strength", 1.0, 0.0, 10.0, 0.01,
                          "How much the prompt counts beside others that lie in the same place."),
    NULL};
static const graft_output *const outputs[] = {
    OUT("CONDITIONING", "CONDITIONING", "The prompt, in its area only."), NULL};

static graft_status run(graft_call *c)
{
    const graft_area area = {.x = graft_arg_f64(c, X),
                             .y = graft_arg_f64(c, Y),
                             .width = graft_arg_f64(c, WIDTH),
                             .height = graft_arg_f64(c, HEIGHT),
                             .shares = true};
    graft_cond *cond = NULL;
    graft_status st = graft_cond_area(graft_arg_cond(c, CONDITIONING), &area,
                                      graft_arg_f64(c, STRENGTH), &cond, &c->err);
    return st != GRAFT_OK ? st : graft_call_out_cond(c, 0, cond);
}

GRAFT_NODE(conditioning_set_area_percentage, .id = "ConditioningSetAreaPercentage",
           .title = "Conditioning (Set Area with Percentage)", .category = "conditioning",
           .description = "Draws a prompt in a part of the picture, given in shares, so that it "
                          "fits pictures of any size.");
