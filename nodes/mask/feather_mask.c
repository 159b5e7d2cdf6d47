/* FeatherMask: a mask that fades out towards its edges. */
#include "nodes/node.h"

enum { MASK, LEFT, TOP, RIGHT, BOTTOM };
static const graft_input *const inputs[] = {
    [MASK] = IN_OBJECT("mask", "MASK", "The mask to soften."),
    [LEFT] = IN_INT("left", 0, 0, 16384, 1, "Over how many pixels it fades at the left edge."),
    [TOP] = IN_INT("top", 0, 0, 16384, 1, "Over how many pixels it fades at the top."),
    [RIGHT] = IN_INT("right", 0, 0, 16384, 1, "Over how many pixels it fades at the right edge."),
    [BOTTOM] = IN_INT("bottom", 0, 0, 16384, 1, "Over how many pixels it fades at the bottom."),
    NULL};
static const graft_output *const outputs[] = {OUT("MASK", "MASK", "The softened mask."), NULL};

static graft_status run(graft_call *c)
{
    const int64_t sides[4] = {graft_arg_i64(c, LEFT), graft_arg_i64(c, TOP),
                              graft_arg_i64(c, RIGHT), graft_arg_i64(c, BOTTOM)};
    graft_image *mask = NULL;
    graft_status st = graft_mask_feather(graft_arg_mask(c, MASK), sides, &mask, &c->err);
    return st != GRAFT_OK ? st : graft_call_out_mask(c, 0, mask);
}

GRAFT_NODE(feather_mask, .id = "FeatherMask", .title = "FeatherMask", .category = "mask",
           .description = "Lets a mask fade out towards the edges of its picture, so that what it "
                          "selects blends in.");
