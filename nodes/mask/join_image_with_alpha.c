/* JoinImageWithAlpha: a picture made transparent by a mask. */
#include "nodes/node.h"

enum { IMAGE, ALPHA };
static const graft_input *const inputs[] = {
    [IMAGE] = IN_OBJECT("image", "IMAGE", "The colours; transparency that is there is replaced."),
    [ALPHA] = IN_OBJECT("alpha", "MASK",
                        "White becomes transparent, black opaque; scaled to the pictures."),
    NULL};
static const graft_output *const outputs[] = {
    OUT("IMAGE", "IMAGE", "The pictures with transparency, which PNG files keep."), NULL};

static graft_status run(graft_call *c)
{
    graft_image *image = NULL;
    graft_status st = graft_image_join_alpha(graft_arg_image(c, IMAGE), graft_arg_mask(c, ALPHA),
                                             &image, &c->err);
    return st != GRAFT_OK ? st : graft_call_out_image(c, 0, image);
}

GRAFT_NODE(join_image_with_alpha, .id = "JoinImageWithAlpha", .title = "Join Image with Alpha",
           .category = "mask/compositing",
           .description = "Makes pictures transparent where a mask is white.");
