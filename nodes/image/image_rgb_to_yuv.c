/* ImageRGBToYUV: pictures as brightness and two differences of colour. */
#include "nodes/node.h"

enum { IMAGE };
static const graft_input *const inputs[] = {
    [IMAGE] = IN_OBJECT("image", "IMAGE", "The pictures to take apart."), NULL};
static const graft_output *const outputs[] = {OUT("Y", "IMAGE", "The brightness, grey."),
                                              OUT("U", "IMAGE", "How blue, grey; 0.5 is neutral."),
                                              OUT("V", "IMAGE", "How red, grey; 0.5 is neutral."),
                                              NULL};

static graft_status run(graft_call *c)
{
    graft_image *yuv[3];
    graft_status st = graft_image_to_yuv(graft_arg_image(c, IMAGE), yuv, &c->err);
    for (int k = 0; k < 3 && yuv[k]; k++) {
        const graft_status one = graft_call_out_image(c, k, yuv[k]);
        if (st == GRAFT_OK) st = one;
    }
    return st;
}

GRAFT_NODE(image_rgb_to_yuv, .id = "ImageRGBToYUV", .title = "ImageRGBToYUV",
           .category = "image/batch",
           .description = "Takes pictures apart into brightness and colour, each a grey picture.");
