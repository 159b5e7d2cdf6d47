/* ImageColorToMask: where a picture has one colour. */
#include "nodes/node.h"

enum { IMAGE, COLOR };
static const graft_input *const inputs[] = {
    [IMAGE] = IN_OBJECT("image", "IMAGE", "The picture to look at."),
    [COLOR] = IN_INT("color", 0, 0, 16777215, 1,
                     "The colour as one number, 0xRRGGBB: 0 is black, 16777215 is white.",
                     .flags = GRAFT_INPUT_COLOR),
    NULL};
static const graft_output *const outputs[] = {
    OUT("MASK", "MASK", "White where the picture has just this colour."), NULL};

static graft_status run(graft_call *c)
{
    graft_image *mask = NULL;
    graft_status st = graft_image_color_to_mask(graft_arg_image(c, IMAGE),
                                                (uint32_t)graft_arg_i64(c, COLOR), &mask, &c->err);
    return st != GRAFT_OK ? st : graft_call_out_mask(c, 0, mask);
}

GRAFT_NODE(image_color_to_mask, .id = "ImageColorToMask", .title = "ImageColorToMask",
           .category = "mask",
           .description = "Selects the pixels of one colour: one drawing can hold the masks of "
                          "several prompts.");
