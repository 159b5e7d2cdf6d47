/* LatentCrop: a part of latents. */
#include "nodes/node.h"

enum { SAMPLES, WIDTH, HEIGHT, X, Y };
static const graft_input *const inputs[] = {
    [SAMPLES] = IN_OBJECT("samples", "LATENT", "The latents to take a part of."),
    [WIDTH] = IN_INT("width", 512, 64, 16384, 8, "Width of the part in pixels."),
    [HEIGHT] = IN_INT("height", 512, 64, 16384, 8, "Height of the part in pixels."),
    [X] = IN_INT("x", 0, 0, 16384, 8, "Pixels from the left edge to the part."),
    [Y] = IN_INT("y", 0, 0, 16384, 8, "Pixels from the top edge to the part."),
    NULL};
static const graft_output *const outputs[] = {OUT("LATENT", "LATENT", "The part."), NULL};

static graft_status run(graft_call *c)
{
    graft_latent *latent = NULL;
    graft_status st =
        graft_latent_crop(graft_arg_latent(c, SAMPLES), graft_arg_i64(c, X), graft_arg_i64(c, Y),
                          graft_arg_i64(c, WIDTH), graft_arg_i64(c, HEIGHT), &latent, &c->err);
    return st != GRAFT_OK ? st : graft_call_out_latent(c, 0, latent);
}

GRAFT_NODE(
    latent_crop, .id = "LatentCrop", .title = "Crop Latent", .category = "latent/transform",
    .description =
        "Cuts a rectangle out of latents and their mask; anything beyond the edges is left out.");
