/* ImageBlend: two pictures mixed. */
#include "nodes/node.h"

enum { IMAGE1, IMAGE2, BLEND_FACTOR, BLEND_MODE };
static const graft_input *const inputs[] = {
    [IMAGE1] = IN_OBJECT("image1", "IMAGE", "The picture below."),
    [IMAGE2] =
        IN_OBJECT("image2", "IMAGE", "The picture above; scaled and cut to the size of the first."),
    [BLEND_FACTOR] = IN_FLOAT("blend_factor", 0.5, 0.0, 1.0, 0.01,
                              "How much the second counts: 0 leaves the first as it is."),
    [BLEND_MODE] =
        IN_CHOICE("blend_mode",
                  CHOICES("normal", "multiply", "screen", "overlay", "soft_light", "difference"),
                  "How the two colours of a pixel make a new one."),
    NULL};
static const graft_output *const outputs[] = {OUT("IMAGE", "IMAGE", "The mixture."), NULL};

static graft_status run(graft_call *c)
{
    graft_image *image = NULL;
    graft_status st = graft_image_blend(graft_arg_image(c, IMAGE1), graft_arg_image(c, IMAGE2),
                                        graft_arg_f64(c, BLEND_FACTOR),
                                        graft_arg_text(c, BLEND_MODE), &image, &c->err);
    return st != GRAFT_OK ? st : graft_call_out_image(c, 0, image);
}

GRAFT_NODE(image_blend, .id = "ImageBlend", .title = "ImageBlend",
           .category = "image/postprocessing",
           .description = "Mixes two pictures as layers of a drawing program do.");
