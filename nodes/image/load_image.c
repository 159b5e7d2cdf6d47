/* LoadImage: a picture and its transparency from the input folder. */
#include "base/alloc.h"
#include "nodes/node.h"

enum { IMAGE };
static const graft_input *const inputs[] = {
    [IMAGE] = IN_CHOICE(
        "image", NULL, "A picture in the input folder: PNG, JPEG, WebP, BMP, GIF, TGA, PSD or PNM.",
        .flags = GRAFT_INPUT_IMAGE_UPLOAD),
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
    GRAFT_TRY(graft_arg_file(c, IMAGE, "input", &path));
    GRAFT_TRY(graft_image_load(path, &image, &mask, &c->err));
    st = graft_call_out_picture(c, image, mask);
out:
    graft_free(path);
    return st;
}

QUERY_PICTURE_IN("input", IMAGE)

GRAFT_NODE(load_image, .id = "LoadImage", .title = "Load Image", .category = "image",
           .description = "Opens a picture from the input folder, turned upright, and its "
                          "transparency as a mask.",
           .query = query);
