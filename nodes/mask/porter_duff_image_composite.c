/* PorterDuffImageComposite: a picture over another, by what both cover. */
#include "nodes/node.h"

enum { SOURCE, SOURCE_ALPHA, DESTINATION, DESTINATION_ALPHA, MODE };
static const graft_input *const inputs[] = {
    [SOURCE] = IN_OBJECT("source", "IMAGE", "The picture above; the result has its size."),
    [SOURCE_ALPHA] = IN_OBJECT("source_alpha", "MASK", "White where the picture above is clear."),
    [DESTINATION] = IN_OBJECT("destination", "IMAGE",
                              "The picture below; scaled and cut to the size of the one above."),
    [DESTINATION_ALPHA] =
        IN_OBJECT("destination_alpha", "MASK", "White where the picture below is clear."),
    [MODE] = IN_CHOICE("mode",
                       CHOICES("ADD", "CLEAR", "DARKEN", "DST", "DST_ATOP", "DST_IN", "DST_OUT",
                               "DST_OVER", "LIGHTEN", "MULTIPLY", "OVERLAY", "SCREEN", "SRC",
                               "SRC_ATOP", "SRC_IN", "SRC_OUT", "SRC_OVER", "XOR"),
                       "SRC_OVER lays one over the other; SRC_IN, SRC_OUT, SRC_ATOP cut it out by "
                       "the one below; DST_ the other way round. DST leaves the one below.",
                       .initial.s = "DST"),
    NULL};
static const graft_output *const outputs[] = {
    OUT("IMAGE", "IMAGE", "The colours of the result."),
    OUT("MASK", "MASK", "White where the result is clear, black where it is opaque."), NULL};

static graft_status run(graft_call *c)
{
    const graft_layer_pair pair = {graft_arg_image(c, SOURCE), graft_arg_mask(c, SOURCE_ALPHA),
                                   graft_arg_image(c, DESTINATION),
                                   graft_arg_mask(c, DESTINATION_ALPHA)};
    graft_image *image = NULL, *mask = NULL;
    graft_status st =
        graft_image_porter_duff(&pair, graft_arg_text(c, MODE), &image, &mask, &c->err);
    return st ? st : graft_call_out_picture(c, image, mask);
}

GRAFT_NODE(porter_duff_image_composite, .id = "PorterDuffImageComposite",
           .title = "Porter-Duff Image Composite", .category = "mask/compositing",
           .description = "Lays a picture over another, both with transparency, by one of the "
                          "modes of Porter and Duff.");
