/* GetImageSize: how large a picture is. */
#include "nodes/node.h"

enum { IMAGE };
static const graft_input *const inputs[] = {
    [IMAGE] = IN_OBJECT("image", "IMAGE", "The pictures to measure."), NULL};
static const graft_output *const outputs[] = {
    OUT("width", "INT", "Width in pixels."), OUT("height", "INT", "Height in pixels."),
    OUT("batch_size", "INT", "How many pictures the batch has."), NULL};

static graft_status run(graft_call *c)
{
    int64_t shape[4];
    graft_image_data(graft_arg_image(c, IMAGE), shape);
    graft_status st = graft_call_out_i64(c, 0, shape[2]);
    if (st == GRAFT_OK) st = graft_call_out_i64(c, 1, shape[1]);
    return st != GRAFT_OK ? st : graft_call_out_i64(c, 2, shape[0]);
}

GRAFT_NODE(get_image_size, .id = "GetImageSize", .title = "Get Image Size", .category = "image",
           .description = "Tells the size of pictures, for inputs that want a width or height.");
