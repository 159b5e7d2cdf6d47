/* ImagePadForOutpaint: room around a picture, to be painted. */
#include "nodes/node.h"

enum { IMAGE, LEFT, TOP, RIGHT, BOTTOM, FEATHERING };
static const graft_input *const inputs[] = {
    [IMAGE] = IN_OBJECT("image", "IMAGE", "The picture to extend."),
    [LEFT] = IN_INT("left", 0, 0, 16384, 8, "Pixels of room on the left."),
    [TOP] = IN_INT("top", 0, 0, 16384, 8, "Pixels of room above."),
    [RIGHT] = IN_INT("right", 0, 0, 16384, 8, "Pixels of room on the right."),
    [BOTTOM] = IN_INT("bottom", 0, 0, 16384, 8, "Pixels of room below."),
    [FEATHERING] = IN_INT("feathering", 40, 0, 16384, 1,
                          "Over how many pixels of the picture the mask fades out."),
    NULL};
static const graft_output *const outputs[] = {
    OUT("IMAGE", "IMAGE", "The picture with grey room around it."),
    OUT("MASK", "MASK", "White where there is room; for VAEEncodeForInpaint."), NULL};

static graft_status run(graft_call *c)
{
    const int64_t sides[4] = {graft_arg_i64(c, LEFT), graft_arg_i64(c, TOP),
                              graft_arg_i64(c, RIGHT), graft_arg_i64(c, BOTTOM)};
    graft_image *image = NULL, *mask = NULL;
    graft_status st = graft_image_pad(graft_arg_image(c, IMAGE), sides,
                                      graft_arg_i64(c, FEATHERING), &image, &mask, &c->err);
    return st ? st : graft_call_out_picture(c, image, mask);
}

GRAFT_NODE(
    image_pad_for_outpaint, .id = "ImagePadForOutpaint", .title = "Pad Image for Outpainting",
    .category = "image",
    .description =
        "Adds room around a picture, and a mask of that room, so that a sampler can paint there.");
