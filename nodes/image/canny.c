/* Canny: the edges of pictures. */
#include "nodes/node.h"

enum { IMAGE, LOW_THRESHOLD, HIGH_THRESHOLD };
static const graft_input *const inputs[] = {
    [IMAGE] = IN_OBJECT("image", "IMAGE", "The pictures to find edges in."),
    [LOW_THRESHOLD] = IN_FLOAT("low_threshold", 0.4, 0.01, 0.99, 0.01,
                               "Edges weaker than this are left out; not above high_threshold."),
    [HIGH_THRESHOLD] = IN_FLOAT("high_threshold", 0.8, 0.01, 0.99, 0.01,
                                "Edges stronger than this are kept, and weaker ones where they "
                                "join them."),
    NULL};
static const graft_output *const outputs[] = {
    OUT("IMAGE", "IMAGE", "The edges, white on black, as ControlNets for Canny's edges take them."),
    NULL};

static graft_status run(graft_call *c)
{
    graft_image *image = NULL;
    graft_status st =
        graft_image_canny(graft_arg_image(c, IMAGE), graft_arg_f64(c, LOW_THRESHOLD),
                          graft_arg_f64(c, HIGH_THRESHOLD), &c->task, &image, &c->err);
    return st != GRAFT_OK ? st : graft_call_out_image(c, 0, image);
}

GRAFT_NODE(canny, .id = "Canny", .title = "Canny", .category = "image/preprocessors",
           .description = "Draws the edges of pictures as thin lines, by Canny's method.");
