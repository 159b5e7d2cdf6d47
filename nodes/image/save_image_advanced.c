/* SaveImageAdvanced: pictures as files of a chosen kind that hold their workflow. */
#include "nodes/call/output.h"
#include "nodes/call/pictures.h"
#include "nodes/node.h"

enum { IMAGES, FILENAME_PREFIX, FORMAT, BIT_DEPTH, INPUT_COLOR_SPACE };
enum { ZLIB_LEVEL = 4 };
static const graft_input *const inputs[] = {
    [IMAGES] = IN_OBJECT("images", "IMAGE", "The pictures to save."),
    [FILENAME_PREFIX] = IN_TEXT("filename_prefix", "ComfyUI",
                                "How file names begin, as SaveImage has it; a number follows."),
    [FORMAT] = IN_CHOICE("format", CHOICES("png"), "The kind of file. EXR is not written."),
    [BIT_DEPTH] = IN_CHOICE("format.bit_depth", CHOICES("8-bit", "16-bit"),
                            "How finely colours are kept: 16-bit for pictures that are worked on.",
                            .when = "format=png"),
    [INPUT_COLOR_SPACE] = IN_CHOICE(
        "format.input_color_space", CHOICES("sRGB"),
        "What the colours mean; a PNG is sRGB and has them as they are.", .when = "format=png"),
    NULL};
static const graft_output *const outputs[] = {
    OUT("images", "IMAGE", "The pictures that were saved, as they came."), NULL};

static graft_status run(graft_call *c)
{
    const int bits = graft_arg_is(c, BIT_DEPTH, "16-bit") ? 16 : 8;
    graft_status st = graft_pictures_save(c, graft_arg_image(c, IMAGES), "output",
                                          graft_arg_text(c, FILENAME_PREFIX), ZLIB_LEVEL, bits);
    return st != GRAFT_OK ? st : graft_call_out_same(c, 0, IMAGES);
}

QUERY_PREFIX()

GRAFT_NODE(save_image_advanced, .id = "SaveImageAdvanced", .title = "Save Image (Advanced)",
           .category = "image", .flags = GRAFT_NODE_OUTPUT,
           .description = "Saves pictures as PNG with 8 or 16 bits a channel in the output folder, "
                          "with the workflow inside.",
           .query = query);
