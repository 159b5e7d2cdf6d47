/* ImageCrop: a part of a picture. */
#include "nodes/node.h"

enum { IMAGE, WIDTH, HEIGHT, X, Y };
static const graft_input *const inputs[] = {
    [IMAGE] = IN_OBJECT("image", "IMAGE", "The pictures to cut."),
    [WIDTH] = IN_INT("width", 512, 1, 16384, 1,
                     "Width of the part in pixels; less where the picture ends."),
    [HEIGHT] = IN_INT("height", 512, 1, 16384, 1,
                      "Height of the part in pixels; less where the picture ends."),
    [X] = IN_INT("x", 0, 0, 16384, 1, "Pixels from the left edge to the part."),
    [Y] = IN_INT("y", 0, 0, 16384, 1, "Pixels from the top edge to the part."),
    NULL};
static const graft_output *const outputs[] = {OUT("IMAGE", "IMAGE", "The part."), NULL};

static graft_status run(graft_call *c)
{
    graft_image *image = NULL;
    graft_status st =
        graft_image_crop(graft_arg_image(c, IMAGE), graft_arg_i64(c, X), graft_arg_i64(c, Y),
                         graft_arg_i64(c, WIDTH), graft_arg_i64(c, HEIGHT), &image, &c->err);
    return st != GRAFT_OK ? st : graft_call_out_image(c, 0, image);
}

GRAFT_NODE(image_crop, .id = "ImageCrop", .title = "Image Crop", .category = "image/transform",
           .description = "Cuts a rectangle out of pictures.");
