/* SaveAnimatedPNG: a batch of pictures as one animated PNG that holds its workflow. */
#include "nodes/call/output.h"
#include "nodes/call/pictures.h"
#include "nodes/node.h"

enum { IMAGES, FILENAME_PREFIX, FPS, COMPRESS_LEVEL };
static const graft_input *const inputs[] = {
    [IMAGES] = IN_OBJECT("images", "IMAGE", "The pictures to save, in their order."),
    [FILENAME_PREFIX] = IN_TEXT("filename_prefix", "ComfyUI",
                                "How the file's name begins; a number follows. It may name "
                                "sub-folders and hold %width%, %height% and the time."),
    [FPS] = IN_FLOAT("fps", 6.0, 0.01, 1000.0, 0.01, "Pictures a second."),
    [COMPRESS_LEVEL] = IN_INT("compress_level", 4, 0, 9, 0,
                              "How hard to try to make the file small: 0 not at all, 9 longest."),
    NULL};
static const graft_output *const outputs[] = {NULL};

static graft_status run(graft_call *c)
{
    return graft_pictures_save_apng(c, graft_arg_image(c, IMAGES),
                                    graft_arg_text(c, FILENAME_PREFIX), graft_arg_f64(c, FPS),
                                    (int)graft_arg_i64(c, COMPRESS_LEVEL));
}

QUERY_PREFIX()

GRAFT_NODE(save_animated_png, .id = "SaveAnimatedPNG", .title = "SaveAnimatedPNG",
           .category = "image/animation", .flags = GRAFT_NODE_OUTPUT,
           .description = "Saves a batch of pictures as one animated PNG in the output folder, "
                          "which browsers play, with the workflow inside.",
           .query = query);
