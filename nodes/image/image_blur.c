/* ImageBlur: pictures blurred. */
#include "nodes/node.h"

enum { IMAGE, BLUR_RADIUS, SIGMA };
static const graft_input *const inputs[] = {
    [IMAGE] = IN_OBJECT("image", "IMAGE", "The pictures to blur."),
    [BLUR_RADIUS] = IN_INT("blur_radius", 1, 1, 31, 1,
                           "How far the blur reaches, in pixels; sides must be larger than that."),
    [SIGMA] = IN_FLOAT("sigma", 1.0, 0.1, 10.0, 0.1,
                       "How much of the radius counts: small values blur little, large ones mix "
                       "everything within it evenly."),
    NULL};
static const graft_output *const outputs[] = {OUT("IMAGE", "IMAGE", "The blurred pictures."), NULL};

static graft_status run(graft_call *c)
{
    graft_image *image = NULL;
    graft_status st = graft_image_blur(graft_arg_image(c, IMAGE), graft_arg_i64(c, BLUR_RADIUS),
                                       graft_arg_f64(c, SIGMA), &c->task, &image, &c->err);
    return st != GRAFT_OK ? st : graft_call_out_image(c, 0, image);
}

GRAFT_NODE(image_blur, .id = "ImageBlur", .title = "ImageBlur", .category = "image/postprocessing",
           .description = "Blurs pictures: every pixel becomes a mean of those around it.");
