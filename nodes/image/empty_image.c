/* EmptyImage: pictures of one colour. */
#include "nodes/node.h"

enum { WIDTH, HEIGHT, BATCH_SIZE, COLOR };
static const graft_input *const inputs[] = {
    [WIDTH] = IN_INT("width", 512, 1, 16384, 1, "Width in pixels."),
    [HEIGHT] = IN_INT("height", 512, 1, 16384, 1, "Height in pixels."),
    [BATCH_SIZE] = IN_INT("batch_size", 1, 1, 4096, 0, "How many pictures to make."),
    [COLOR] = IN_INT("color", 0, 0, 16777215, 1,
                     "The colour as one number, 0xRRGGBB: 0 is black, 16777215 is white.",
                     .flags = GRAFT_INPUT_COLOR),
    NULL};
static const graft_output *const outputs[] = {OUT("IMAGE", "IMAGE", "The pictures."), NULL};

static graft_status run(graft_call *c)
{
    graft_image *image = NULL;
    graft_status st = graft_image_empty(graft_arg_i64(c, WIDTH), graft_arg_i64(c, HEIGHT),
                                        graft_arg_i64(c, BATCH_SIZE),
                                        (uint32_t)graft_arg_i64(c, COLOR), &image, &c->err);
    return st != GRAFT_OK ? st : graft_call_out_image(c, 0, image);
}

GRAFT_NODE(empty_image, .id = "EmptyImage", .title = "EmptyImage", .category = "image",
           .description = "Makes pictures of one colour, as a background or for tests.");
