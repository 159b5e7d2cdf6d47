/* ImageBatch: two batches become one. */
#include "nodes/node.h"

enum { IMAGE1, IMAGE2 };
static const graft_input *const inputs[] = {
    [IMAGE1] = IN_OBJECT("image1", "IMAGE", "The first pictures of the batch."),
    [IMAGE2] =
        IN_OBJECT("image2", "IMAGE", "Those that follow; scaled and cut to the size of the first."),
    NULL};
static const graft_output *const outputs[] = {OUT("IMAGE", "IMAGE", "All of them."), NULL};

static graft_status run(graft_call *c)
{
    graft_image *image = NULL;
    graft_status st =
        graft_image_batch(graft_arg_image(c, IMAGE1), graft_arg_image(c, IMAGE2), &image, &c->err);
    return st != GRAFT_OK ? st : graft_call_out_image(c, 0, image);
}

GRAFT_NODE(image_batch, .id = "ImageBatch", .title = "Batch Images", .category = "image",
           .description = "Puts pictures into one batch.");
