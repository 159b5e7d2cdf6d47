/* InvertMask: what was not selected. */
#include "nodes/node.h"

enum { MASK };
static const graft_input *const inputs[] = {
    [MASK] = IN_OBJECT("mask", "MASK", "The mask to invert."), NULL};
static const graft_output *const outputs[] = {OUT("MASK", "MASK", "The rest of the picture."),
                                              NULL};

static graft_status run(graft_call *c)
{
    graft_image *mask = NULL;
    graft_status st = graft_image_invert(graft_arg_mask(c, MASK), &mask, &c->err);
    return st != GRAFT_OK ? st : graft_call_out_mask(c, 0, mask);
}

GRAFT_NODE(invert_mask, .id = "InvertMask", .title = "InvertMask", .category = "mask",
           .description = "Selects what the mask does not: white becomes black.");
