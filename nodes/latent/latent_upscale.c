/* LatentUpscale: latents of another size. */
#include "nodes/node.h"

enum { SAMPLES, UPSCALE_METHOD, WIDTH, HEIGHT, CROP };
static const graft_input *const inputs[] = {
    [SAMPLES] = IN_OBJECT("samples", "LATENT", "The latents to resize."),
    [UPSCALE_METHOD] = IN_CHOICE(
        "upscale_method", CHOICES("nearest-exact", "bilinear", "area", "bicubic", "bislerp"),
        "How values between samples are found. bislerp keeps the contrast of latents best."),
    [WIDTH] = IN_INT("width", 512, 0, 16384, 8,
                     "New width in pixels; 0 keeps the proportions of the old picture."),
    [HEIGHT] = IN_INT("height", 512, 0, 16384, 8,
                      "New height in pixels; 0 keeps the proportions of the old picture."),
    [CROP] = IN_CHOICE("crop", CHOICES("disabled", "center"),
                       "center cuts the edges off first, so that nothing is stretched."),
    NULL};
static const graft_output *const outputs[] = {OUT("LATENT", "LATENT", "The resized latents."),
                                              NULL};

static graft_status run(graft_call *c)
{
    const graft_latent *samples = graft_arg_latent(c, SAMPLES);
    graft_latent *latent = NULL;
    int64_t shape[4];
    graft_latent_data(samples, shape);
    const int64_t scale = graft_latent_scale(shape[1] / graft_latent_layers(samples));
    graft_arg_warn_pixels(c, WIDTH, scale);
    graft_arg_warn_pixels(c, HEIGHT, scale);
    graft_status st = graft_latent_upscale(samples, graft_arg_text(c, UPSCALE_METHOD),
                                           graft_arg_i64(c, WIDTH), graft_arg_i64(c, HEIGHT),
                                           graft_arg_is(c, CROP, "center"), &latent, &c->err);
    return st != GRAFT_OK ? st : graft_call_out_latent(c, 0, latent);
}

GRAFT_NODE(latent_upscale, .id = "LatentUpscale", .title = "Upscale Latent", .category = "latent",
           .description =
               "Resizes latents to a size in pixels. Sample again with a denoise below 1 "
               "to add the missing detail.");
