/* EmptySD3LatentImage: where text-to-image begins for Stable Diffusion 3. */
#include "nodes/node.h"

enum { WIDTH, HEIGHT, BATCH_SIZE };
static const graft_input *const inputs[] = {
    [WIDTH] = IN_INT("width", 1024, 16, 16384, 16, "Width of the picture in pixels."),
    [HEIGHT] = IN_INT("height", 1024, 16, 16384, 16, "Height of the picture in pixels."),
    [BATCH_SIZE] = IN_INT("batch_size", 1, 1, 4096, 0,
                          "How many pictures to make at once. More need more memory."),
    NULL};
static const graft_output *const outputs[] = {
    OUT("LATENT", "LATENT", "An empty batch with 16 channels, for a sampler to fill."), NULL};

static graft_status run(graft_call *c)
{
    graft_latent *latent = NULL;
    graft_arg_warn_pixels(c, WIDTH, graft_latent_scale(16));
    graft_arg_warn_pixels(c, HEIGHT, graft_latent_scale(16));
    graft_status st = graft_latent_empty(16, graft_arg_i64(c, WIDTH), graft_arg_i64(c, HEIGHT),
                                         graft_arg_i64(c, BATCH_SIZE), &latent, &c->err);
    return st != GRAFT_OK ? st : graft_call_out_latent(c, 0, latent);
}

GRAFT_NODE(empty_sd3_latent_image, .id = "EmptySD3LatentImage", .title = "EmptySD3LatentImage",
           .category = "latent/sd3",
           .description = "Makes an empty batch of latents with 16 channels, for Stable Diffusion "
                          "3 and FLUX.1.");
