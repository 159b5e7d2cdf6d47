/* MaskPreview: a mask to look at. */
#include "nodes/call/pictures.h"
#include "nodes/node.h"

enum { MASK };
enum { ZLIB_LEVEL = 1 };
static const graft_input *const inputs[] = {
    [MASK] = IN_OBJECT("mask", "MASK", "The mask to look at: white is what it selects."), NULL};
static const graft_output *const outputs[] = {NULL};

static graft_status run(graft_call *c)
{
    graft_image *image = NULL;
    graft_status st = graft_mask_to_image(graft_arg_mask(c, MASK), &image, &c->err);
    if (st != GRAFT_OK) return st;
    st = graft_pictures_save(c, image, "temp", c->self->temp_prefix, ZLIB_LEVEL, 8);
    graft_image_release(image);
    return st;
}

GRAFT_NODE(mask_preview, .id = "MaskPreview", .title = "Preview Mask", .category = "mask",
           .flags = GRAFT_NODE_OUTPUT,
           .description = "Shows a mask as a grey picture without keeping it: the file goes to the "
                          "temporary folder.");
