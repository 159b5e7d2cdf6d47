/* SplitImageWithAlpha: a picture and its transparency apart. */
#include "nodes/node.h"

enum { IMAGE };
static const graft_input *const inputs[] = {
    [IMAGE] = IN_OBJECT("image", "IMAGE", "The pictures to take apart."), NULL};
static const graft_output *const outputs[] = {
    OUT("IMAGE", "IMAGE", "The colours alone."),
    OUT("MASK", "MASK", "White where the picture is transparent, black where it is opaque."), NULL};

static graft_status run(graft_call *c)
{
    graft_image *image = NULL, *mask = NULL;
    graft_status st = graft_image_split_alpha(graft_arg_image(c, IMAGE), &image, &mask, &c->err);
    return st ? st : graft_call_out_picture(c, image, mask);
}

GRAFT_NODE(
    split_image_with_alpha, .id = "SplitImageWithAlpha", .title = "Split Image with Alpha",
    .category = "mask/compositing",
    .description =
        "Splits the transparency off pictures, as a mask. Pictures without any give a black one.");
