/* ImageRotate: pictures turned by right angles. */
#include "nodes/node.h"

enum { IMAGE, ROTATION };
static const graft_input *const inputs[] = {
    [IMAGE] = IN_OBJECT("image", "IMAGE", "The pictures to turn."),
    [ROTATION] = IN_CHOICE("rotation", CHOICES("none", "90 degrees", "180 degrees", "270 degrees"),
                           "By how much, clockwise."),
    NULL};
static const graft_output *const outputs[] = {OUT("IMAGE", "IMAGE", "The turned pictures."), NULL};

static graft_status run(graft_call *c)
{
    int turns = graft_arg_is(c, ROTATION, "90 degrees")    ? 1
                : graft_arg_is(c, ROTATION, "180 degrees") ? 2
                : graft_arg_is(c, ROTATION, "270 degrees") ? 3
                                                           : 0;
    graft_image *image = NULL;
    graft_status st = graft_image_rotate(graft_arg_image(c, IMAGE), turns, &image, &c->err);
    return st != GRAFT_OK ? st : graft_call_out_image(c, 0, image);
}

GRAFT_NODE(image_rotate, .id = "ImageRotate", .title = "Image Rotate",
           .category = "image/transform", .description = "Turns pictures by right angles.");
