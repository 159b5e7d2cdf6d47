/* SolidMask: a mask of one value. */
#include "nodes/node.h"

enum { VALUE, WIDTH, HEIGHT };
static const graft_input *const inputs[] = {
    [VALUE] = IN_FLOAT("value", 1.0, 0.0, 1.0, 0.01, "1 is white, which selects; 0 is black."),
    [WIDTH] = IN_INT("width", 512, 1, 16384, 1, "Width in pixels."),
    [HEIGHT] = IN_INT("height", 512, 1, 16384, 1, "Height in pixels."),
    NULL};
static const graft_output *const outputs[] = {OUT("MASK", "MASK", "The mask."), NULL};

static graft_status run(graft_call *c)
{
    graft_image *mask = NULL;
    graft_status st = graft_mask_solid(graft_arg_i64(c, WIDTH), graft_arg_i64(c, HEIGHT),
                                       graft_arg_f64(c, VALUE), &mask, &c->err);
    return st != GRAFT_OK ? st : graft_call_out_mask(c, 0, mask);
}

GRAFT_NODE(solid_mask, .id = "SolidMask", .title = "SolidMask", .category = "mask",
           .description = "Makes a mask of one value. Put others into it with MaskComposite.");
