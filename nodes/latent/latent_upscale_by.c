/* LatentUpscaleBy: latents scaled by a factor. */
#include "nodes/node.h"

enum { SAMPLES, UPSCALE_METHOD, SCALE_BY };
static const graft_input *const inputs[] = {
    [SAMPLES] = IN_OBJECT("samples", "LATENT", "The latents to resize."),
    [UPSCALE_METHOD] = IN_CHOICE(
        "upscale_method", CHOICES("nearest-exact", "bilinear", "area", "bicubic", "bislerp"),
        "How values between samples are found. bislerp keeps the contrast of latents best."),
    [SCALE_BY] = IN_FLOAT("scale_by", 1.5, 0.01, 8.0, 0.01,
                          "Factor for width and height: 2 makes both twice as large."),
    NULL};
static const graft_output *const outputs[] = {OUT("LATENT", "LATENT", "The resized latents."),
                                              NULL};

static graft_status run(graft_call *c)
{
    graft_latent *latent = NULL;
    graft_status st =
        graft_latent_upscale_by(graft_arg_latent(c, SAMPLES), graft_arg_text(c, UPSCALE_METHOD),
                                graft_arg_f64(c, SCALE_BY), &latent, &c->err);
    return st != GRAFT_OK ? st : graft_call_out_latent(c, 0, latent);
}

GRAFT_NODE(latent_upscale_by, .id = "LatentUpscaleBy", .title = "Upscale Latent By",
           .category = "latent",
           .description = "Resizes latents by a factor. Sample again with a denoise below 1 to add "
                          "the missing detail.");
