/* VAEEncode: pictures become latents. */
#include "nodes/node.h"

enum { PIXELS, VAE };
static const graft_input *const inputs[] = {
    [PIXELS] =
        IN_OBJECT("pixels", "IMAGE",
                  "The pictures. Edges beyond a multiple of 8 pixels (16 for FLUX.2) are cut off."),
    [VAE] = IN_OBJECT("vae", "VAE", "The VAE that belongs to the model."),
    NULL};
static const graft_output *const outputs[] = {
    OUT("LATENT", "LATENT", "The encoded pictures, a start for a sampler."), NULL};

static graft_status run(graft_call *c)
{
    graft_latent *latent = NULL;
    graft_call_phase(c, "encode");
    graft_status st = graft_vae_encode(graft_arg_vae(c, VAE), graft_arg_image(c, PIXELS), NULL,
                                       &c->task, &latent, &c->err);
    return st != GRAFT_OK ? st : graft_call_out_latent(c, 0, latent);
}

GRAFT_NODE(vae_encode, .id = "VAEEncode", .title = "VAE Encode", .category = "latent",
           .description = "Encodes pictures into latents, so that a sampler can start from them.");
