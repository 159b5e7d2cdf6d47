/* EmptyFlux2LatentImage: where text-to-image begins for FLUX.2. */
#include "nodes/node.h"

#define CHANNELS 128

enum { WIDTH, HEIGHT, BATCH_SIZE };
static const graft_input *const inputs[] = {
    [WIDTH] = IN_INT("width", 1024, 16, 16384, 16, "Width of the picture in pixels."),
    [HEIGHT] = IN_INT("height", 1024, 16, 16384, 16, "Height of the picture in pixels."),
    [BATCH_SIZE] = IN_INT("batch_size", 1, 1, 4096, 0,
                          "How many pictures to make at once. More need more memory."),
    NULL};
static const graft_output *const outputs[] = {
    OUT("LATENT", "LATENT", "An empty batch with 128 channels, for a sampler to fill."), NULL};

static graft_status run(graft_call *c)
{
    graft_latent *latent = NULL;
    graft_arg_warn_pixels(c, WIDTH, graft_latent_scale(CHANNELS));
    graft_arg_warn_pixels(c, HEIGHT, graft_latent_scale(CHANNELS));
    graft_status st =
        graft_latent_empty(CHANNELS, graft_arg_i64(c, WIDTH), graft_arg_i64(c, HEIGHT),
                           graft_arg_i64(c, BATCH_SIZE), &latent, &c->err);
    return st != GRAFT_OK ? st : graft_call_out_latent(c, 0, latent);
}

GRAFT_NODE(empty_flux2_latent_image, .id = "EmptyFlux2LatentImage", .title = "Empty Flux 2 Latent",
           .category = "latent",
           .description = "Makes an empty batch of latents with 128 channels and a place for each "
                          "16x16 pixels, for FLUX.2.");
