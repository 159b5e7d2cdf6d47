/* ImageScaleBy: pictures scaled by a factor. */
#include "nodes/node.h"

enum { IMAGE, UPSCALE_METHOD, SCALE_BY };
static const graft_input *const inputs[] = {
    [IMAGE] = IN_OBJECT("image", "IMAGE", "The pictures to resize."),
    [UPSCALE_METHOD] = IN_CHOICE("upscale_method",
                                 CHOICES("nearest-exact", "bilinear", "area", "bicubic", "lanczos"),
                                 "How new pixels are found between the old ones. lanczos is the "
                                 "sharpest, area suits shrinking."),
    [SCALE_BY] = IN_FLOAT("scale_by", 1.0, 0.01, 8.0, 0.01,
                          "Factor for width and height: 2 makes both twice as large."),
    NULL};
static const graft_output *const outputs[] = {OUT("IMAGE", "IMAGE", "The resized pictures."), NULL};

static graft_status run(graft_call *c)
{
    graft_image *image = NULL;
    graft_status st =
        graft_image_scale_by(graft_arg_image(c, IMAGE), graft_arg_text(c, UPSCALE_METHOD),
                             graft_arg_f64(c, SCALE_BY), &image, &c->err);
    return st != GRAFT_OK ? st : graft_call_out_image(c, 0, image);
}

GRAFT_NODE(image_scale_by, .id = "ImageScaleBy", .title = "Upscale Image By",
           .category = "image/upscaling",
           .description = "Resizes pictures by a factor, up or down.");
