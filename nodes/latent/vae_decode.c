/* VAEDecode: latents become pictures. */
#include "nodes/node.h"

enum { SAMPLES, VAE };
static const graft_input *const inputs[] = {
    [SAMPLES] = IN_OBJECT("samples", "LATENT", "The latents that a sampler finished."),
    [VAE] = IN_OBJECT("vae", "VAE", "The VAE that belongs to the model."),
    NULL};
static const graft_output *const outputs[] = {OUT("IMAGE", "IMAGE", "The pictures."), NULL};

static graft_status run(graft_call *c)
{
    graft_image *image = NULL;
    graft_call_phase(c, "decode");
    graft_status st = graft_vae_decode(graft_arg_vae(c, VAE), graft_arg_latent(c, SAMPLES), NULL,
                                       &c->task, &image, &c->err);
    return st != GRAFT_OK ? st : graft_call_out_image(c, 0, image);
}

GRAFT_NODE(vae_decode, .id = "VAEDecode", .title = "VAE Decode", .category = "latent",
           .description = "Decodes latents into pictures that can be seen and saved.");
