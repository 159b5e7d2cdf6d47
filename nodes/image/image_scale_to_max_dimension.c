/* ImageScaleToMaxDimension: pictures of a given longer side. */
#include "nodes/node.h"

enum { IMAGE, UPSCALE_METHOD, LARGEST_SIZE };
static const graft_input *const inputs[] = {
    [IMAGE] = IN_OBJECT("image", "IMAGE", "The pictures to resize."),
    [UPSCALE_METHOD] = IN_CHOICE("upscale_method",
                                 CHOICES("area", "lanczos", "bilinear", "nearest-exact", "bicubic"),
                                 "How new pixels are found between the old ones. lanczos is the "
                                 "sharpest, area suits shrinking."),
    [LARGEST_SIZE] = IN_INT("largest_size", 512, 0, 16384, 1,
                            "The longer side of the result in pixels, 1 or more; the other one "
                            "follows."),
    NULL};
static const graft_output *const outputs[] = {OUT("IMAGE", "IMAGE", "The resized pictures."), NULL};

static graft_status run(graft_call *c)
{
    graft_image *image = NULL;
    graft_status st =
        graft_image_scale_longer(graft_arg_image(c, IMAGE), graft_arg_text(c, UPSCALE_METHOD),
                                 graft_arg_i64(c, LARGEST_SIZE), &image, &c->err);
    return st != GRAFT_OK ? st : graft_call_out_image(c, 0, image);
}

GRAFT_NODE(image_scale_to_max_dimension, .id = "ImageScaleToMaxDimension",
           .title = "ImageScaleToMaxDimension", .category = "image/upscaling",
           .description = "Resizes pictures so that their longer side is so long, and keeps their "
                          "proportions.");
