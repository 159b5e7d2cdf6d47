/* SetLatentNoiseMask: sampling in a part of the picture. */
#include "nodes/node.h"

enum { SAMPLES, MASK };
static const graft_input *const inputs[] = {
    [SAMPLES] = IN_OBJECT("samples", "LATENT", "The latents of the picture to repaint."),
    [MASK] = IN_OBJECT("mask", "MASK", "White is repainted, black stays as it is."),
    NULL};
static const graft_output *const outputs[] = {
    OUT("LATENT", "LATENT", "The latents with their mask, for a sampler."), NULL};

static graft_status run(graft_call *c)
{
    graft_latent *latent = NULL;
    graft_status st = graft_latent_set_mask(graft_arg_latent(c, SAMPLES), graft_arg_mask(c, MASK),
                                            &latent, &c->err);
    return st != GRAFT_OK ? st : graft_call_out_latent(c, 0, latent);
}

GRAFT_NODE(set_latent_noise_mask, .id = "SetLatentNoiseMask", .title = "Set Latent Noise Mask",
           .category = "latent/inpaint",
           .description = "Limits sampling to a mask. What lies under it is kept as a start, so a "
                          "denoise below 1 changes it gently.");
