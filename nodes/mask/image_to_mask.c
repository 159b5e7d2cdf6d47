/* ImageToMask: a channel as a mask. */
#include "nodes/node.h"

enum { IMAGE, CHANNEL };
static const graft_input *const inputs[] = {
    [IMAGE] = IN_OBJECT("image", "IMAGE", "The picture to take the mask from."),
    [CHANNEL] = IN_CHOICE("channel", CHOICES("red", "green", "blue", "alpha"),
                          "The channel whose brightness becomes the mask."),
    NULL};
static const graft_output *const outputs[] = {
    OUT("MASK", "MASK", "The channel; white is selected."), NULL};

static graft_status run(graft_call *c)
{
    graft_image *mask = NULL;
    graft_status st =
        graft_image_to_mask(graft_arg_image(c, IMAGE), graft_arg_text(c, CHANNEL), &mask, &c->err);
    return st != GRAFT_OK ? st : graft_call_out_mask(c, 0, mask);
}

GRAFT_NODE(image_to_mask, .id = "ImageToMask", .title = "Convert Image to Mask", .category = "mask",
           .description = "Makes a mask from one channel of a picture.");
