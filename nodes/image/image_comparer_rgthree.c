/* Image Comparer (rgthree): rgthree's node, two batches of pictures to look at. */
#include "nodes/call/pictures.h"
#include "nodes/node.h"

enum { IMAGE_A, IMAGE_B };
enum { ZLIB_LEVEL = 1 };
static const graft_input *const inputs[] = {
    [IMAGE_A] = IN_OBJECT("image_a", "IMAGE", "The first pictures.", .flags = GRAFT_INPUT_OPTIONAL),
    [IMAGE_B] = IN_OBJECT("image_b", "IMAGE", "The pictures to hold against them.",
                          .flags = GRAFT_INPUT_OPTIONAL),
    NULL};
static const graft_output *const outputs[] = {NULL};

static graft_status run(graft_call *c)
{
    graft_status st = GRAFT_OK;
    for (int i = IMAGE_A; i <= IMAGE_B && !st; i++)
        if (c->in[i].kind != GRAFT_NONE)
            st = graft_pictures_save(c, graft_arg_image(c, i), "temp", c->self->temp_prefix,
                                     ZLIB_LEVEL, 8);
    return st;
}

GRAFT_NODE(image_comparer_rgthree, .id = "Image Comparer (rgthree)",
           .title = "Image Comparer (rgthree)", .category = "rgthree", .flags = GRAFT_NODE_OUTPUT,
           .description = "Shows pictures side by side without keeping them. It is rgthree's node, "
                          "which many workflows have.");
