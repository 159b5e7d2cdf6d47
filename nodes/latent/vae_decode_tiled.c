/* VAEDecodeTiled: decoding within little memory. */
#include "nodes/node.h"

enum { SAMPLES, VAE, TILE_SIZE, OVERLAP, TEMPORAL_SIZE, TEMPORAL_OVERLAP };
static const graft_input *const inputs[] = {
    [SAMPLES] = IN_OBJECT("samples", "LATENT", "The latents that a sampler finished."),
    [VAE] = IN_OBJECT("vae", "VAE", "The VAE that belongs to the model."),
    [TILE_SIZE] = IN_INT("tile_size", 512, 64, 4096, 32,
                         "Side of a tile in pixels. Smaller tiles need less memory."),
    [OVERLAP] = IN_INT("overlap", 64, 0, 4096, 32,
                       "Pixels that neighbouring tiles share. Raise it when seams show."),
    [TEMPORAL_SIZE] = IN_INT("temporal_size", 64, 8, 4096, 4,
                             "For video models: frames decoded at once. Pictures ignore it."),
    [TEMPORAL_OVERLAP] = IN_INT("temporal_overlap", 8, 4, 4096, 4,
                                "For video models: frames that overlap. Pictures ignore it."),
    NULL};
static const graft_output *const outputs[] = {OUT("IMAGE", "IMAGE", "The pictures."), NULL};

static graft_status run(graft_call *c)
{
    graft_image *image = NULL;
    graft_tiling tiling = {graft_arg_i64(c, TILE_SIZE), graft_arg_i64(c, OVERLAP)};
    graft_call_phase(c, "decode");
    graft_status st = graft_vae_decode(graft_arg_vae(c, VAE), graft_arg_latent(c, SAMPLES), &tiling,
                                       &c->task, &image, &c->err);
    return st != GRAFT_OK ? st : graft_call_out_image(c, 0, image);
}

GRAFT_NODE(
    vae_decode_tiled, .id = "VAEDecodeTiled", .title = "VAE Decode (Tiled)",
    .category = "_for_testing",
    .description =
        "Decodes latents tile by tile, for pictures that do not fit into memory in one piece.");
