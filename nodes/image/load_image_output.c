/* LoadImageOutput: a picture that was made before. */
#include "base/alloc.h"
#include "nodes/node.h"

enum { IMAGE };
static const graft_input *const inputs[] = {
    [IMAGE] = IN_CHOICE("image", NULL, "A picture in the output folder.",
                        .flags = GRAFT_INPUT_IMAGE_UPLOAD | GRAFT_INPUT_IMAGE_OUTPUT),
    NULL};
static const graft_output *const outputs[] = {
    OUT("IMAGE", "IMAGE", "The picture; several when the file has several frames."),
    OUT("MASK", "MASK", "White where the picture is transparent."), NULL};

static graft_status run(graft_call *c)
{
    graft_image *image = NULL, *mask = NULL;
    char *path = NULL;
    graft_status st;
    graft_call_phase(c, "load");
    GRAFT_TRY(graft_arg_file(c, IMAGE, "output", &path));
    GRAFT_TRY(graft_image_load(path, &image, &mask, &c->err));
    st = graft_call_out_picture(c, image, mask);
out:
    graft_free(path);
    return st;
}

QUERY_PICTURE_IN("output", IMAGE)

GRAFT_NODE(load_image_output, .id = "LoadImageOutput", .title = "Load Image (from Outputs)",
           .category = "image", .flags = GRAFT_NODE_EXPERIMENTAL,
           .description = "Opens a picture that was saved before, to continue with it.",
           .query = query);
