/* BatchMasksNode: any number of batches of masks become one. */
#include "nodes/call/batch_inputs.h"

#define SLOT(number_)                                                                              \
    IN_OBJECT("masks.mask" #number_, "MASK", "Number " #number_ " of them, if it is connected.",   \
              .flags = BATCH_SLOT_FLAGS)
static const graft_input *const inputs[] = {
    IN_OBJECT("masks.mask0", "MASK", "The first masks of the batch, which give it their size."),
    IN_OBJECT("masks.mask1", "MASK", "Those that follow; scaled and cut to the size of the first."),
    BATCH_SLOTS(SLOT), NULL};
static const graft_output *const outputs[] = {OUT("MASK", "MASK", "All of them."), NULL};

static graft_status run(graft_call *c)
{
    graft_image *all = NULL;
    graft_status st = batch_pictures(c, graft_arg_mask, &all);
    return st != GRAFT_OK ? st : graft_call_out_mask(c, 0, all);
}

GRAFT_NODE(batch_masks, .id = "BatchMasksNode", .title = "Batch Masks", .category = "mask",
           .description = "Puts any number of masks into one batch.");
