/* LoadImageMask: one channel of a picture as a mask. */
#include "base/alloc.h"
#include "nodes/node.h"

enum { IMAGE, CHANNEL };
static const graft_input *const inputs[] = {
    [IMAGE] = IN_CHOICE(
        "image", NULL, "A picture in the input folder: PNG, JPEG, WebP, BMP, GIF, TGA, PSD or PNM.",
        .flags = GRAFT_INPUT_IMAGE_UPLOAD),
    [CHANNEL] = IN_CHOICE("channel", CHOICES("alpha", "red", "green", "blue"),
                          "The channel to use. alpha selects what is transparent, a colour what "
                          "is bright in it."),
    NULL};
static const graft_output *const outputs[] = {
    OUT("MASK", "MASK", "The channel; white is selected."), NULL};

static graft_status run(graft_call *c)
{
    graft_image *mask = NULL;
    char *path = NULL;
    graft_status st;
    graft_call_phase(c, "load");
    GRAFT_TRY(graft_arg_file(c, IMAGE, "input", &path));
    GRAFT_TRY(graft_image_load_mask(path, graft_arg_text(c, CHANNEL), &mask, &c->err));
    GRAFT_TRY(graft_call_out_mask(c, 0, mask));
out:
    graft_free(path);
    return st;
}

QUERY_PICTURE_IN("input", IMAGE)

GRAFT_NODE(load_image_mask, .id = "LoadImageMask", .title = "Load Image (as Mask)",
           .category = "mask",
           .description = "Opens a picture from the input folder and makes one of its channels a "
                          "mask.",
           .query = query);
