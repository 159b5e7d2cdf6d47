/* PreviewImage: pictures to look at. */
#include "nodes/call/pictures.h"
#include "nodes/node.h"

enum { IMAGES };
enum { ZLIB_LEVEL = 1 };
static const graft_input *const inputs[] = {
    [IMAGES] = IN_OBJECT("images", "IMAGE", "The pictures to look at."), NULL};
static const graft_output *const outputs[] = {NULL};

static graft_status run(graft_call *c)
{
    return graft_pictures_save(c, graft_arg_image(c, IMAGES), "temp", c->self->temp_prefix,
                               ZLIB_LEVEL, 8);
}

GRAFT_NODE(preview_image, .id = "PreviewImage", .title = "Preview Image", .category = "image",
           .flags = GRAFT_NODE_OUTPUT,
           .description = "Shows pictures without keeping them: the files go to the temporary "
                          "folder.");
