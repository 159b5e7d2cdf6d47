/* GrowMask: a larger or smaller mask. */
#include "nodes/node.h"

enum { MASK, EXPAND, TAPERED_CORNERS };
static const graft_input *const inputs[] = {
    [MASK] = IN_OBJECT("mask", "MASK", "The mask to change."),
    [EXPAND] =
        IN_INT("expand", 0, -16384, 16384, 1, "By how many pixels it grows; below 0 it shrinks."),
    [TAPERED_CORNERS] = IN_BOOL("tapered_corners", true,
                                "Grows along rows and columns, which cuts corners off. Otherwise "
                                "corners stay square."),
    NULL};
static const graft_output *const outputs[] = {OUT("MASK", "MASK", "The mask in its new size."),
                                              NULL};

static graft_status run(graft_call *c)
{
    graft_image *mask = NULL;
    graft_status st =
        graft_mask_expand(graft_arg_mask(c, MASK), graft_arg_i64(c, EXPAND),
                          graft_arg_bool(c, TAPERED_CORNERS), &c->task, &mask, &c->err);
    return st != GRAFT_OK ? st : graft_call_out_mask(c, 0, mask);
}

GRAFT_NODE(grow_mask, .id = "GrowMask", .title = "GrowMask", .category = "mask",
           .description = "Makes what a mask selects larger or smaller on all sides.");
