/* HyperTile: self-attention in tiles, for large pictures. */
#include "nodes/node.h"

enum { MODEL, TILE_SIZE, SWAP_SIZE, MAX_DEPTH, SCALE_DEPTH };
static const graft_input *const inputs[] = {
    [MODEL] = IN_OBJECT("model", "MODEL", "The diffusion model to speed up."),
    [TILE_SIZE] = IN_INT("tile_size", 256, 1, 2048, 0,
                         "Least height and width of a tile, in pixels of the picture. Smaller is "
                         "faster; parts that lie further apart no longer see each other."),
    [SWAP_SIZE] = IN_INT("swap_size", 2, 1, 128, 0,
                         "How many sizes of tiles take turns from step to step, so that no seams "
                         "stay in one place; at most 4 do."),
    [MAX_DEPTH] = IN_INT("max_depth", 0, 0, 10, 0,
                         "The last resolution level that is tiled. 0 is the full size of the "
                         "latent, where most of the time goes."),
    [SCALE_DEPTH] = IN_BOOL("scale_depth", false,
                            "Whether tiles of deeper levels have more cells of their level: "
                            "twice as many a side from level to level."),
    NULL};
static const graft_output *const outputs[] = {
    OUT("MODEL", "MODEL", "The model, whose self-attention works in tiles."), NULL};

static graft_status run(graft_call *c)
{
    graft_model *model = NULL;
    const graft_hypertile_options options = {.tile_size = graft_arg_i64(c, TILE_SIZE),
                                             .swap_size = graft_arg_i64(c, SWAP_SIZE),
                                             .max_depth = graft_arg_i64(c, MAX_DEPTH),
                                             .scale_depth = graft_arg_bool(c, SCALE_DEPTH)};
    graft_status st = graft_model_hypertile(graft_arg_model(c, MODEL), &options, &model, &c->err);
    return st != GRAFT_OK ? st : graft_call_out_model(c, 0, model);
}

GRAFT_NODE(hypertile, .id = "HyperTile", .title = "HyperTile", .category = "model_patches/unet",
           .description = "Self-attention looks at tiles of the picture: pictures of 1024 pixels "
                          "and more are sampled faster. Small pictures gain nothing.");
