/* ImageFromBatch: some pictures of a batch. */
#include "nodes/node.h"

enum { IMAGE, BATCH_INDEX, LENGTH };
static const graft_input *const inputs[] = {
    [IMAGE] = IN_OBJECT("image", "IMAGE", "The batch to pick from."),
    [BATCH_INDEX] = IN_INT("batch_index", 0, 0, 4095, 0,
                           "The first picture to take, from 0; beyond the end it is the last."),
    [LENGTH] = IN_INT("length", 1, 1, 4096, 0, "How many to take; fewer where the batch ends."),
    NULL};
static const graft_output *const outputs[] = {OUT("IMAGE", "IMAGE", "The pictures picked."), NULL};

static graft_status run(graft_call *c)
{
    graft_image *image = NULL;
    graft_status st =
        graft_image_from_batch(graft_arg_image(c, IMAGE), graft_arg_i64(c, BATCH_INDEX),
                               graft_arg_i64(c, LENGTH), &image, &c->err);
    return st != GRAFT_OK ? st : graft_call_out_image(c, 0, image);
}

GRAFT_NODE(image_from_batch, .id = "ImageFromBatch", .title = "ImageFromBatch",
           .category = "image/batch",
           .description = "Takes pictures out of a batch, to continue with those alone.");
