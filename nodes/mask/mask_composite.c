/* MaskComposite: two masks become one. */
#include "nodes/node.h"

enum { DESTINATION, SOURCE, X, Y, OPERATION };
static const graft_input *const inputs[] = {
    [DESTINATION] = IN_OBJECT("destination", "MASK", "The mask that the other is put into."),
    [SOURCE] = IN_OBJECT("source", "MASK", "The mask to put there."),
    [X] = IN_INT("x", 0, 0, 16384, 1, "Pixels from the left edge to the source."),
    [Y] = IN_INT("y", 0, 0, 16384, 1, "Pixels from the top edge to the source."),
    [OPERATION] = IN_CHOICE("operation", CHOICES("multiply", "add", "subtract", "and", "or", "xor"),
                            "How both meet where the source lies; and, or, xor round them to black "
                            "and white first."),
    NULL};
static const graft_output *const outputs[] = {OUT("MASK", "MASK", "The combined mask."), NULL};

static graft_status run(graft_call *c)
{
    graft_image *mask = NULL;
    graft_status st = graft_mask_combine(graft_arg_mask(c, DESTINATION), graft_arg_mask(c, SOURCE),
                                         graft_arg_i64(c, X), graft_arg_i64(c, Y),
                                         graft_arg_text(c, OPERATION), &mask, &c->err);
    return st != GRAFT_OK ? st : graft_call_out_mask(c, 0, mask);
}

GRAFT_NODE(mask_composite, .id = "MaskComposite", .title = "MaskComposite", .category = "mask",
           .description = "Combines two masks: adds, subtracts or intersects them.");
