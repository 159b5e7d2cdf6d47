/* EmptyQwenImageLayeredLatentImage: where Qwen-Image-Layered begins. */
#include "nodes/node.h"

#define CHANNELS 16
#define MOST     255 /* with the picture as many as a sampling takes */

enum { WIDTH, HEIGHT, LAYERS, BATCH_SIZE };
static const graft_input *const inputs[] = {
    [WIDTH] = IN_INT("width", 640, 16, 16384, 16,
                     "Width in pixels, that of the picture that is to be taken apart."),
    [HEIGHT] = IN_INT("height", 640, 16, 16384, 16, "Its height in pixels."),
    [LAYERS] = IN_INT("layers", 3, 0, 16384, 1,
                      "Into how many layers. The whole picture comes ahead of them, as one more."),
    [BATCH_SIZE] =
        IN_INT("batch_size", 1, 1, 4096, 0, "How often to do it at once. More need more memory."),
    NULL};
static const graft_output *const outputs[] = {
    OUT("LATENT", "LATENT", "An empty batch of so many layers and one, for a sampler to fill."),
    NULL};

static graft_status run(graft_call *c)
{
    graft_latent *latent = NULL;
    if (graft_arg_i64(c, LAYERS) > MOST)
        return graft_fail(&c->err, GRAFT_E_LIMIT, "%lld layers: there are at most %d",
                          (long long)graft_arg_i64(c, LAYERS), MOST);
    graft_arg_warn_pixels(c, WIDTH, graft_latent_scale(CHANNELS));
    graft_arg_warn_pixels(c, HEIGHT, graft_latent_scale(CHANNELS));
    graft_status st = graft_latent_empty_layers(
        CHANNELS, graft_arg_i64(c, WIDTH), graft_arg_i64(c, HEIGHT), graft_arg_i64(c, LAYERS) + 1,
        graft_arg_i64(c, BATCH_SIZE), &latent, &c->err);
    return st != GRAFT_OK ? st : graft_call_out_latent(c, 0, latent);
}

GRAFT_NODE(empty_qwen_image_layered_latent_image, .id = "EmptyQwenImageLayeredLatentImage",
           .title = "Empty Qwen Image Layered Latent", .category = "latent/qwen",
           .description = "Makes an empty stack of latents for Qwen-Image-Layered: a picture and "
                          "the layers that it is taken apart into. LatentCutToBatch makes pictures "
                          "of what was sampled.");
