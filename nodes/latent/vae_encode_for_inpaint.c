/* VAEEncodeForInpaint: a picture with a hole. */
#include "nodes/node.h"

enum { PIXELS, VAE, MASK, GROW_MASK_BY };
static const graft_input *const inputs[] = {
    [PIXELS] = IN_OBJECT("pixels", "IMAGE", "The picture to repaint in part."),
    [VAE] = IN_OBJECT("vae", "VAE", "The VAE that belongs to the model."),
    [MASK] = IN_OBJECT("mask", "MASK", "White is painted anew, black stays as it is."),
    [GROW_MASK_BY] = IN_INT("grow_mask_by", 6, 0, 64, 1,
                            "Pixels by which the mask grows, so that the new part blends in."),
    NULL};
static const graft_output *const outputs[] = {
    OUT("LATENT", "LATENT", "The encoded picture with its mask; sample it with denoise 1."), NULL};

static graft_status run(graft_call *c)
{
    graft_latent *latent = NULL;
    graft_call_phase(c, "encode");
    graft_status st = graft_vae_encode_inpaint(
        graft_arg_vae(c, VAE), graft_arg_image(c, PIXELS), graft_arg_mask(c, MASK),
        graft_arg_i64(c, GROW_MASK_BY), &c->task, &latent, &c->err);
    return st != GRAFT_OK ? st : graft_call_out_latent(c, 0, latent);
}

GRAFT_NODE(vae_encode_for_inpaint, .id = "VAEEncodeForInpaint",
           .title = "VAE Encode (for Inpainting)", .category = "latent/inpaint",
           .description = "Encodes a picture with the masked part blanked out, for a sampler to "
                          "fill in from the prompt alone.");
