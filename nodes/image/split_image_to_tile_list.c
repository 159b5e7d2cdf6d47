/* SplitImageToTileList: pictures in tiles that overlap. */
#include "base/alloc.h"
#include "nodes/call/list.h"
#include "nodes/node.h"

enum { IMAGE, TILE_WIDTH, TILE_HEIGHT, OVERLAP };
static const graft_input *const inputs[] = {
    [IMAGE] = IN_OBJECT("image", "IMAGE", "The pictures to divide."),
    [TILE_WIDTH] = IN_INT("tile_width", 1024, 64, 16384, 0, "The width of a tile, in pixels."),
    [TILE_HEIGHT] = IN_INT("tile_height", 1024, 64, 16384, 0, "The height of a tile, in pixels."),
    [OVERLAP] = IN_INT("overlap", 128, 0, 4096, 0, "How many pixels neighbours share."),
    NULL};
static const graft_output *const outputs[] = {
    OUT_LIST("IMAGE", "IMAGE", "The tiles, row by row: what follows runs once for each."), NULL};

static graft_status run(graft_call *c)
{
    const graft_image_tiling tiling = {graft_arg_i64(c, TILE_WIDTH), graft_arg_i64(c, TILE_HEIGHT),
                                       graft_arg_i64(c, OVERLAP)};
    graft_value *list = NULL;
    graft_image **tiles = NULL;
    size_t made = 0;
    graft_status st = GRAFT_OK;
    GRAFT_TRY(graft_image_split_tiles(graft_arg_image(c, IMAGE), &tiling, &tiles, &made, &c->err));
    GRAFT_TRY(graft_list_create(made, &list, &c->err));
    for (size_t i = 0; i < made; i++) {
        st = graft_list_push(list, GRAFT_VALUE_IMAGE, tiles[i], &c->err);
        tiles[i] = NULL;
        if (st) goto out;
    }
    st = graft_call_out_list(c, 0, list);
    list = NULL;
out:
    if (list) list->ops->release(list);
    for (size_t i = 0; i < made; i++) graft_image_release(tiles[i]);
    graft_free(tiles);
    return st;
}

GRAFT_NODE(split_image_to_tile_list, .id = "SplitImageToTileList",
           .title = "Split Image into List of Tiles", .category = "image/batch",
           .description = "Divides pictures into tiles that share some pixels with their "
                          "neighbours, to work on each.");
