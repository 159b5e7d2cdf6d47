/* ImageMergeTileList: a picture of tiles again. */
#include "base/alloc.h"
#include "nodes/call/list.h"
#include "nodes/node.h"

enum { IMAGE_LIST, FINAL_WIDTH, FINAL_HEIGHT, OVERLAP };
static const graft_input *const inputs[] = {
    [IMAGE_LIST] =
        IN_OBJECT("image_list", "IMAGE", "The tiles, row by row.", .flags = GRAFT_INPUT_LIST),
    [FINAL_WIDTH] = IN_INT("final_width", 1024, 64, 32768, 0, "The width of all, in pixels."),
    [FINAL_HEIGHT] = IN_INT("final_height", 1024, 64, 32768, 0, "The height of all, in pixels."),
    [OVERLAP] = IN_INT("overlap", 128, 0, 4096, 0,
                       "How many pixels neighbours share, over which they fade into each other."),
    NULL};
static const graft_output *const outputs[] = {OUT("IMAGE", "IMAGE", "The whole picture."), NULL};

static graft_status run(graft_call *c)
{
    const graft_value *from = graft_arg_list(c, IMAGE_LIST);
    const size_t n = graft_list_count(from);
    graft_image *image = NULL;
    const graft_image **tiles = graft_malloc_array(n, sizeof *tiles);
    if (!tiles) return graft_fail_nomem(&c->err, "a list of tiles");
    for (size_t i = 0; i < n; i++) tiles[i] = graft_list_object(from, i, GRAFT_VALUE_IMAGE);
    graft_call_blame(c, IMAGE_LIST);
    graft_status st =
        graft_image_merge_tiles(tiles, n, graft_arg_i64(c, OVERLAP), graft_arg_i64(c, FINAL_WIDTH),
                                graft_arg_i64(c, FINAL_HEIGHT), &image, &c->err);
    graft_free(tiles);
    return st != GRAFT_OK ? st : graft_call_out_image(c, 0, image);
}

GRAFT_NODE(image_merge_tile_list, .id = "ImageMergeTileList",
           .title = "Merge List of Tiles to Image", .category = "image/batch",
           .description = "Puts tiles together as Split Image into List of Tiles made them, or "
                          "as what became of them.");
