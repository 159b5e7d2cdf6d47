/* RepeatImageBatch: copies of pictures. */
#include "nodes/node.h"

enum { IMAGE, AMOUNT };
static const graft_input *const inputs[] = {
    [IMAGE] = IN_OBJECT("image", "IMAGE", "The batch to repeat."),
    [AMOUNT] = IN_INT("amount", 1, 1, 4096, 0, "How many times; all copies need memory."),
    NULL};
static const graft_output *const outputs[] = {OUT("IMAGE", "IMAGE", "The larger batch."), NULL};

static graft_status run(graft_call *c)
{
    graft_image *image = NULL;
    graft_status st =
        graft_image_repeat(graft_arg_image(c, IMAGE), graft_arg_i64(c, AMOUNT), &image, &c->err);
    return st != GRAFT_OK ? st : graft_call_out_image(c, 0, image);
}

GRAFT_NODE(repeat_image_batch, .id = "RepeatImageBatch", .title = "RepeatImageBatch",
           .category = "image/batch", .description = "Repeats a batch of pictures as a whole.");
