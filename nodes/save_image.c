/* SaveImage: pictures as PNG files that hold their workflow. */
#include "nodes/node.h"
#include "nodes/output.h"
#include "nodes/pictures.h"

enum { IMAGES, FILENAME_PREFIX };
enum { ZLIB_LEVEL = 4 };
static const graft_input *const inputs[] = {
    [IMAGES] = IN_OBJECT("images", "IMAGE", "The pictures to save."),
    [FILENAME_PREFIX] =
        IN_TEXT("filename_prefix", "ComfyUI",
                "How file names begin; a number follows. It may name sub-folders and hold %width%, "
                "%height%, %year%, %month%, %day%, %hour%, %minute%, %second%, %batch_num%."),
    NULL};
static const graft_output *const outputs[] = {NULL};

static graft_status run(graft_call *c)
{
    return graft_pictures_save(c, graft_arg_image(c, IMAGES), "output",
                               graft_arg_text(c, FILENAME_PREFIX), ZLIB_LEVEL);
}

static graft_status check(const graft_host *h, const graft_arg *in, const char **input, char *text,
                          uint64_t n)
{
    (void)h;
    *input = inputs[FILENAME_PREFIX]->name;
    return graft_output_validate(&in[FILENAME_PREFIX], text, n);
}
QUERY_CHECK()

GRAFT_NODE(save_image, .id = "SaveImage", .title = "Save Image", .category = "image",
           .flags = GRAFT_NODE_OUTPUT,
           .description = "Saves pictures as PNG in the output folder, with the workflow inside: "
                          "opening the file brings the workflow back.",
           .query = query);
