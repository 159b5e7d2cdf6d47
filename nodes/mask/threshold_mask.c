/* ThresholdMask: black and white instead of greys. */
#include "nodes/node.h"

enum { MASK, VALUE };
static const graft_input *const inputs[] = {
    [MASK] = IN_OBJECT("mask", "MASK", "The mask with greys."),
    [VALUE] = IN_FLOAT("value", 0.5, 0.0, 1.0, 0.01, "What is lighter than this becomes white."),
    NULL};
static const graft_output *const outputs[] = {OUT("MASK", "MASK", "The mask in black and white."),
                                              NULL};

static graft_status run(graft_call *c)
{
    graft_image *mask = NULL;
    graft_status st =
        graft_mask_threshold(graft_arg_mask(c, MASK), graft_arg_f64(c, VALUE), &mask, &c->err);
    return st != GRAFT_OK ? st : graft_call_out_mask(c, 0, mask);
}

GRAFT_NODE(threshold_mask, .id = "ThresholdMask", .title = "ThresholdMask", .category = "mask",
           .description = "Makes a mask black and white: white above a threshold.");
