/* ImageFlip: pictures mirrored. */
#include "nodes/node.h"

enum { IMAGE, FLIP_METHOD };
static const graft_input *const inputs[] = {
    [IMAGE] = IN_OBJECT("image", "IMAGE", "The pictures to mirror."),
    [FLIP_METHOD] = IN_CHOICE("flip_method", CHOICES("x-axis: vertically", "y-axis: horizontally"),
                              "vertically: upside down. horizontally: left to right."),
    NULL};
static const graft_output *const outputs[] = {OUT("IMAGE", "IMAGE", "The mirrored pictures."),
                                              NULL};

static graft_status run(graft_call *c)
{
    graft_image *image = NULL;
    graft_status st =
        graft_image_flip(graft_arg_image(c, IMAGE),
                         graft_arg_is(c, FLIP_METHOD, "x-axis: vertically"), &image, &c->err);
    return st != GRAFT_OK ? st : graft_call_out_image(c, 0, image);
}

GRAFT_NODE(image_flip, .id = "ImageFlip", .title = "ImageFlip", .category = "image/transform",
           .description = "Mirrors pictures, top to bottom or left to right.");
