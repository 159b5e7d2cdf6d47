/* ResizeAndPadImage: pictures in a margin that gives them a size. */
#include "nodes/node.h"

enum { IMAGE, TARGET_WIDTH, TARGET_HEIGHT, PADDING_COLOR, INTERPOLATION };
static const graft_input *const inputs[] = {
    [IMAGE] = IN_OBJECT("image", "IMAGE", "The pictures to fit in."),
    [TARGET_WIDTH] =
        IN_INT("target_width", 512, 1, 16384, 1, "The width with the margin, in pixels."),
    [TARGET_HEIGHT] =
        IN_INT("target_height", 512, 1, 16384, 1, "The height with the margin, in pixels."),
    [PADDING_COLOR] = IN_CHOICE("padding_color", CHOICES("white", "black"), "Of the margin.",
                                .flags = GRAFT_INPUT_ADVANCED),
    [INTERPOLATION] = IN_CHOICE(
        "interpolation", CHOICES("area", "bicubic", "nearest-exact", "bilinear", "lanczos"),
        "How new pixels are found between the old ones.", .flags = GRAFT_INPUT_ADVANCED),
    NULL};
static const graft_output *const outputs[] = {
    OUT("IMAGE", "IMAGE", "The pictures in their margin."), NULL};

static graft_status run(graft_call *c)
{
    graft_image *image = NULL;
    graft_status st = graft_image_fit(
        graft_arg_image(c, IMAGE), graft_arg_text(c, INTERPOLATION), graft_arg_i64(c, TARGET_WIDTH),
        graft_arg_i64(c, TARGET_HEIGHT), graft_arg_is(c, PADDING_COLOR, "white"), &image, &c->err);
    return st != GRAFT_OK ? st : graft_call_out_image(c, 0, image);
}

GRAFT_NODE(resize_and_pad_image, .id = "ResizeAndPadImage", .title = "ResizeAndPadImage",
           .category = "image/transform",
           .description = "Makes pictures as large as fits into a size, in their own proportions, "
                          "and fills the rest with a margin.");
