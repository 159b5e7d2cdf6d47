/* ImageQuantize: pictures in few colours. */
#include "nodes/node.h"

enum { IMAGE, COLORS, DITHER };
static const graft_input *const inputs[] = {
    [IMAGE] = IN_OBJECT("image", "IMAGE", "The pictures to change."),
    [COLORS] = IN_INT("colors", 256, 1, 256, 1, "How many colors each picture has at most."),
    [DITHER] = IN_CHOICE(
        "dither", CHOICES("none", "floyd-steinberg", "bayer-2", "bayer-4", "bayer-8", "bayer-16"),
        "How colors that are left out are mixed of others: not at all, by "
        "passing on what is missing, or by a pattern of so many pixels."),
    NULL};
static const graft_output *const outputs[] = {OUT("IMAGE", "IMAGE", "The pictures in few colors."),
                                              NULL};

static graft_status run(graft_call *c)
{
    graft_image *image = NULL;
    graft_status st = graft_image_quantize(graft_arg_image(c, IMAGE), graft_arg_i64(c, COLORS),
                                           graft_arg_text(c, DITHER), &c->task, &image, &c->err);
    return st != GRAFT_OK ? st : graft_call_out_image(c, 0, image);
}

GRAFT_NODE(image_quantize, .id = "ImageQuantize", .title = "ImageQuantize",
           .category = "image/postprocessing",
           .description = "Reduces each picture to a few colors of its own, chosen by median cut.");
