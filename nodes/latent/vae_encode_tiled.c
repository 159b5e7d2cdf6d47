/* VAEEncodeTiled: encoding within little memory. */
#include "nodes/node.h"

enum { PIXELS, VAE, TILE_SIZE, OVERLAP, TEMPORAL_SIZE, TEMPORAL_OVERLAP };
static const graft_input *const inputs[] = {
    [PIXELS] =
        IN_OBJECT("pixels", "IMAGE",
                  "The pictures. Edges beyond a multiple of 8 pixels (16 for FLUX.2) are cut off."),
    [VAE] = IN_OBJECT("vae", "VAE", "The VAE that belongs to the model."),
    [TILE_SIZE] = IN_INT("tile_size", 512, 64, 4096, 64,
                         "Side of a tile in pixels. Smaller tiles need less memory."),
    [OVERLAP] = IN_INT("overlap", 64, 0, 4096, 32,
                       "Pixels that neighbouring tiles share. Raise it when seams show."),
    [TEMPORAL_SIZE] = IN_INT("temporal_size", 64, 8, 4096, 4,
                             "For video models: frames encoded at once. Pictures ignore it."),
    [TEMPORAL_OVERLAP] = IN_INT("temporal_overlap", 8, 4, 4096, 4,
                                "For video models: frames that overlap. Pictures ignore it."),
    NULL};
static const graft_output *const outputs[] = {
    OUT("LATENT", "LATENT", "The encoded pictures, a start for a sampler."), NULL};

static graft_status run(graft_call *c)
{
    graft_latent *latent = NULL;
    graft_tiling tiling = {graft_arg_i64(c, TILE_SIZE), graft_arg_i64(c, OVERLAP)};
    graft_call_phase(c, "encode");
    graft_status st = graft_vae_encode(graft_arg_vae(c, VAE), graft_arg_image(c, PIXELS), &tiling,
                                       &c->task, &latent, &c->err);
    return st != GRAFT_OK ? st : graft_call_out_latent(c, 0, latent);
}

GRAFT_NODE(
    vae_encode_tiled, .id = "VAEEncodeTiled", .title = "VAE Encode (Tiled)",
    .category = "_for_testing",
    .description =
        "Encodes pictures tile by tile, for pictures that do not fit into memory in one piece.");
