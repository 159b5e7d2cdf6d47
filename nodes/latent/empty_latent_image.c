/* EmptyLatentImage: where text-to-image begins. */
#include "nodes/node.h"

enum { WIDTH, HEIGHT, BATCH_SIZE };
static const graft_input *const inputs[] = {
    [WIDTH] = IN_INT("width", 512, 16, 16384, 8, "Width of the picture in pixels."),
    [HEIGHT] = IN_INT("height", 512, 16, 16384, 8, "Height of the picture in pixels."),
    [BATCH_SIZE] = IN_INT("batch_size", 1, 1, 4096, 0,
                          "How many pictures to make at once. More need more memory."),
    NULL};
static const graft_output *const outputs[] = {
    OUT("LATENT", "LATENT", "An empty batch, for a sampler to fill."), NULL};

static graft_status run(graft_call *c)
{
    graft_latent *latent = NULL;
    graft_arg_warn_pixels(c, WIDTH, graft_latent_scale(4));
    graft_arg_warn_pixels(c, HEIGHT, graft_latent_scale(4));
    graft_status st = graft_latent_empty(4, graft_arg_i64(c, WIDTH), graft_arg_i64(c, HEIGHT),
                                         graft_arg_i64(c, BATCH_SIZE), &latent, &c->err);
    return st != GRAFT_OK ? st : graft_call_out_latent(c, 0, latent);
}

GRAFT_NODE(empty_latent_image, .id = "EmptyLatentImage", .title = "Empty Latent Image",
           .category = "latent",
           .description = "Makes an empty batch of latents: the size and number of the pictures "
                          "that a sampler will paint.");
