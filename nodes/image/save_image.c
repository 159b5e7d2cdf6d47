/* SaveImage: pictures as PNG files that hold their workflow. */
#include "nodes/call/output.h"
#include "nodes/call/pictures.h"
#include "nodes/node.h"

enum { IMAGES, FILENAME_PREFIX };
enum { ZLIB_LEVEL = 4 };
static const graft_input *const inputs[] = {
    [IMAGES] = IN_OBJECT("images", "IMAGE", "The pictures to save."),
    [FILENAME_PREFIX] = IN_TEXT(
        "filename_prefix", "ComfyUI",
        "How file names begin; a number follows. It may name sub-folders and hold %width%, "
        "%height%, %year%, %month%, %day%, %hour%, %minute%, %second%, %batch_num%; an editor "
        "also fills in %date:yyyy-MM-dd% and %Node.input%."),
    NULL};
static const graft_output *const outputs[] = {
    OUT("images", "IMAGE", "The pictures that were saved, as they came."), NULL};

static graft_status run(graft_call *c)
{
    graft_status st = graft_pictures_save(c, graft_arg_image(c, IMAGES), "output",
                                          graft_arg_text(c, FILENAME_PREFIX), ZLIB_LEVEL, 8);
    return st != GRAFT_OK ? st : graft_call_out_same(c, 0, IMAGES);
}

QUERY_PREFIX()

GRAFT_NODE(save_image, .id = "SaveImage", .title = "Save Image", .category = "image",
           .flags = GRAFT_NODE_OUTPUT,
           .description = "Saves pictures as PNG in the output folder, with the workflow inside: "
                          "opening the file brings the workflow back.",
           .query = query);
