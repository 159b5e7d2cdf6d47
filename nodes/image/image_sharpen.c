/* ImageSharpen: pictures sharpened. */
#include "nodes/node.h"

enum { IMAGE, SHARPEN_RADIUS, SIGMA, ALPHA };
static const graft_input *const inputs[] = {
    [IMAGE] = IN_OBJECT("image", "IMAGE", "The pictures to sharpen."),
    [SHARPEN_RADIUS] =
        IN_INT("sharpen_radius", 1, 1, 31, 1,
               "How wide the details are that become clearer, in pixels; sides must be larger."),
    [SIGMA] =
        IN_FLOAT("sigma", 1.0, 0.1, 10.0, 0.01, "How much of the radius counts, as in ImageBlur."),
    [ALPHA] = IN_FLOAT("alpha", 1.0, 0.0, 5.0, 0.01,
                       "How strongly: ten times this of what a blur takes away is added."),
    NULL};
static const graft_output *const outputs[] = {OUT("IMAGE", "IMAGE", "The sharpened pictures."),
                                              NULL};

static graft_status run(graft_call *c)
{
    graft_image *image = NULL;
    graft_status st = graft_image_sharpen(graft_arg_image(c, IMAGE),
                                          graft_arg_i64(c, SHARPEN_RADIUS), graft_arg_f64(c, SIGMA),
                                          graft_arg_f64(c, ALPHA), &c->task, &image, &c->err);
    return st != GRAFT_OK ? st : graft_call_out_image(c, 0, image);
}

GRAFT_NODE(image_sharpen, .id = "ImageSharpen", .title = "ImageSharpen",
           .category = "image/postprocessing",
           .description = "Sharpens pictures: raises how they differ from their blur.");
