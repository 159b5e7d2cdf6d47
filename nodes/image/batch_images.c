/* BatchImagesNode: any number of batches of pictures become one. */
#include "nodes/call/batch_inputs.h"

#define SLOT(number_)                                                                              \
    IN_OBJECT("images.image" #number_, "IMAGE",                                                    \
              "Number " #number_ " of them, if it is connected.", .flags = BATCH_SLOT_FLAGS)
static const graft_input *const inputs[] = {
    IN_OBJECT("images.image0", "IMAGE",
              "The first pictures of the batch, which give it their size."),
    IN_OBJECT("images.image1", "IMAGE",
              "Those that follow; scaled and cut to the size of the first."),
    BATCH_SLOTS(SLOT), NULL};
static const graft_output *const outputs[] = {OUT("IMAGE", "IMAGE", "All of them."), NULL};

static graft_status run(graft_call *c)
{
    graft_image *all = NULL;
    graft_status st = batch_pictures(c, graft_arg_image, &all);
    return st != GRAFT_OK ? st : graft_call_out_image(c, 0, all);
}

GRAFT_NODE(batch_images, .id = "BatchImagesNode", .title = "Batch Images", .category = "image",
           .description = "Puts any number of pictures into one batch.");
