/* CropMask: a part of a mask. */
#include "nodes/node.h"

enum { MASK, X, Y, WIDTH, HEIGHT };
static const graft_input *const inputs[] = {
    [MASK] = IN_OBJECT("mask", "MASK", "The mask to take a part of."),
    [X] = IN_INT("x", 0, 0, 16384, 1, "Pixels from the left edge to the part."),
    [Y] = IN_INT("y", 0, 0, 16384, 1, "Pixels from the top edge to the part."),
    [WIDTH] = IN_INT("width", 512, 1, 16384, 1, "Width of the part in pixels."),
    [HEIGHT] = IN_INT("height", 512, 1, 16384, 1, "Height of the part in pixels."),
    NULL};
static const graft_output *const outputs[] = {OUT("MASK", "MASK", "The part."), NULL};

static graft_status run(graft_call *c)
{
    graft_image *mask = NULL;
    graft_status st =
        graft_image_crop(graft_arg_mask(c, MASK), graft_arg_i64(c, X), graft_arg_i64(c, Y),
                         graft_arg_i64(c, WIDTH), graft_arg_i64(c, HEIGHT), &mask, &c->err);
    return st != GRAFT_OK ? st : graft_call_out_mask(c, 0, mask);
}

GRAFT_NODE(crop_mask, .id = "CropMask", .title = "CropMask", .category = "mask",
           .description = "Cuts a rectangle out of a mask; anything beyond the edges is left out.");
