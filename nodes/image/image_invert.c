/* ImageInvert: the negative of pictures. */
#include "nodes/node.h"

enum { IMAGE };
static const graft_input *const inputs[] = {
    [IMAGE] = IN_OBJECT("image", "IMAGE", "The pictures to invert."), NULL};
static const graft_output *const outputs[] = {OUT("IMAGE", "IMAGE", "The negatives."), NULL};

static graft_status run(graft_call *c)
{
    graft_image *image = NULL;
    graft_status st = graft_image_invert(graft_arg_image(c, IMAGE), &image, &c->err);
    return st != GRAFT_OK ? st : graft_call_out_image(c, 0, image);
}

GRAFT_NODE(image_invert, .id = "ImageInvert", .title = "Invert Image", .category = "image",
           .description = "Turns pictures into their negatives: black becomes white.");
