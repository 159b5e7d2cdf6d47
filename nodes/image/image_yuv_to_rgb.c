/* ImageYUVToRGB: pictures of brightness and two differences of colour. */
#include "nodes/node.h"

enum { Y, U, V };
static const graft_input *const inputs[] = {
    [Y] = IN_OBJECT("Y", "IMAGE", "The brightness; of colours the mean counts."),
    [U] = IN_OBJECT("U", "IMAGE", "How blue; 0.5 is neutral."),
    [V] = IN_OBJECT("V", "IMAGE", "How red; 0.5 is neutral."),
    NULL};
static const graft_output *const outputs[] = {OUT("IMAGE", "IMAGE", "The pictures."), NULL};

static graft_status run(graft_call *c)
{
    const graft_image *const yuv[3] = {graft_arg_image(c, Y), graft_arg_image(c, U),
                                       graft_arg_image(c, V)};
    graft_image *image = NULL;
    graft_status st = graft_image_from_yuv(yuv, &image, &c->err);
    return st != GRAFT_OK ? st : graft_call_out_image(c, 0, image);
}

GRAFT_NODE(image_yuv_to_rgb, .id = "ImageYUVToRGB", .title = "ImageYUVToRGB",
           .category = "image/batch",
           .description = "Puts brightness and colour together again, as ImageRGBToYUV gave them.");
