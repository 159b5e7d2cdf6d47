/* ImageStitch: two pictures side by side. */
#include "nodes/node.h"

enum { IMAGE1, DIRECTION, MATCH_IMAGE_SIZE, SPACING_WIDTH, SPACING_COLOR, IMAGE2 };
static const graft_input *const inputs[] = {
    [IMAGE1] = IN_OBJECT("image1", "IMAGE", "The first pictures."),
    [DIRECTION] = IN_CHOICE("direction", CHOICES("right", "down", "left", "up"),
                            "On which side of the first ones the others stand."),
    [MATCH_IMAGE_SIZE] =
        IN_BOOL("match_image_size", true,
                "Whether the others become as high as the first ones, above and below as wide. "
                "Off, what is smaller stands in the middle of a margin."),
    [SPACING_WIDTH] = IN_INT("spacing_width", 0, 0, 1024, 2, "Pixels between them, an even number.",
                             .flags = GRAFT_INPUT_ADVANCED),
    [SPACING_COLOR] =
        IN_CHOICE("spacing_color", CHOICES("white", "black", "red", "green", "blue"),
                  "The colour between and around them.", .flags = GRAFT_INPUT_ADVANCED),
    [IMAGE2] = IN_OBJECT("image2", "IMAGE", "The others. Without them the first ones stay alone.",
                         .flags = GRAFT_INPUT_OPTIONAL),
    NULL};
static const graft_output *const outputs[] = {
    OUT("IMAGE", "IMAGE", "Both in one picture; of batches the first with the first, and so on."),
    NULL};

static graft_status run(graft_call *c)
{
    graft_image *first = graft_arg_image(c, IMAGE1), *second = graft_arg_image(c, IMAGE2);
    graft_image *image = NULL;
    const graft_stitching how = {.direction = graft_arg_text(c, DIRECTION),
                                 .match = graft_arg_bool(c, MATCH_IMAGE_SIZE),
                                 .spacing = graft_arg_i64(c, SPACING_WIDTH),
                                 .colour = graft_arg_text(c, SPACING_COLOR)};
    if (!second) return graft_call_out_image(c, 0, graft_image_retain(first));
    graft_status st = graft_image_stitch(first, second, &how, &image, &c->err);
    return st != GRAFT_OK ? st : graft_call_out_image(c, 0, image);
}

GRAFT_NODE(
    image_stitch, .id = "ImageStitch", .title = "Image Stitch", .category = "image/transform",
    .description = "Puts two pictures side by side in one, for instance for FLUX.1 Kontext.");
