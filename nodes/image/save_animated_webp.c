/* SaveAnimatedWEBP: a batch of pictures as one animated WebP that holds its workflow. */
#include "nodes/call/output.h"
#include "nodes/call/pictures.h"
#include "nodes/node.h"

enum { IMAGES, FILENAME_PREFIX, FPS, LOSSLESS, QUALITY, METHOD };
enum { FASTEST = 0, DEFAULT = 4, SLOWEST = 6 }; /* libwebp's methods */
static const graft_input *const inputs[] = {
    [IMAGES] = IN_OBJECT("images", "IMAGE", "The pictures to save, in their order."),
    [FILENAME_PREFIX] = IN_TEXT("filename_prefix", "ComfyUI",
                                "How the file's name begins; a number follows. It may name "
                                "sub-folders and hold %width%, %height% and the time."),
    [FPS] = IN_FLOAT("fps", 6.0, 0.01, 1000.0, 0.01, "Pictures a second."),
    [LOSSLESS] = IN_BOOL("lossless", true, "Keeps every pixel. Without it files are smaller."),
    [QUALITY] = IN_INT("quality", 80, 0, 100, 0,
                       "How good the pictures stay; when lossless, how hard to try to make the "
                       "file small."),
    [METHOD] = IN_CHOICE("method", CHOICES("default", "fastest", "slowest"),
                         "Slower makes the file smaller."),
    NULL};
static const graft_output *const outputs[] = {NULL};

static graft_status run(graft_call *c)
{
    const graft_webp_options options = {.milliseconds = (int)(1000 / graft_arg_f64(c, FPS)),
                                        .quality = (int)graft_arg_i64(c, QUALITY),
                                        .method = graft_arg_is(c, METHOD, "fastest")   ? FASTEST
                                                  : graft_arg_is(c, METHOD, "slowest") ? SLOWEST
                                                                                       : DEFAULT,
                                        .lossless = graft_arg_bool(c, LOSSLESS)};
    return graft_pictures_save_webp(c, graft_arg_image(c, IMAGES),
                                    graft_arg_text(c, FILENAME_PREFIX), &options);
}

QUERY_PREFIX()

GRAFT_NODE(save_animated_webp, .id = "SaveAnimatedWEBP", .title = "SaveAnimatedWEBP",
           .category = "image/animation", .flags = GRAFT_NODE_OUTPUT,
           .description = "Saves a batch of pictures as one animated WebP in the output folder, "
                          "which browsers play, with the workflow inside.",
           .query = query);
