/* MaskToImage: a mask to look at. */
#include "nodes/node.h"

enum { MASK };
static const graft_input *const inputs[] = {[MASK] = IN_OBJECT("mask", "MASK", "The mask to show."),
                                            NULL};
static const graft_output *const outputs[] = {OUT("IMAGE", "IMAGE", "The mask as a grey picture."),
                                              NULL};

static graft_status run(graft_call *c)
{
    graft_image *image = NULL;
    graft_status st = graft_mask_to_image(graft_arg_mask(c, MASK), &image, &c->err);
    return st != GRAFT_OK ? st : graft_call_out_image(c, 0, image);
}

GRAFT_NODE(mask_to_image, .id = "MaskToImage", .title = "Convert Mask to Image", .category = "mask",
           .description = "Makes a grey picture from a mask, to look at or to save.");
