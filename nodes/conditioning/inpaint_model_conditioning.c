/* InpaintModelConditioning: prompts with the picture that an inpainting model fills in. */
#include "nodes/node.h"

enum { POSITIVE, NEGATIVE, VAE, PIXELS, MASK, NOISE_MASK };
static const graft_input *const inputs[] = {
    [POSITIVE] = IN_OBJECT("positive", "CONDITIONING", "What the painted part should show."),
    [NEGATIVE] = IN_OBJECT("negative", "CONDITIONING", "What it should not show."),
    [VAE] = IN_OBJECT("vae", "VAE", "The VAE that belongs to the model."),
    [PIXELS] = IN_OBJECT("pixels", "IMAGE", "The picture to repaint in part."),
    [MASK] = IN_OBJECT("mask", "MASK", "White is painted anew, black stays as it is."),
    [NOISE_MASK] = IN_BOOL("noise_mask", true,
                           "Whether the sampler keeps what is black. Off, the model may change it "
                           "a little, so that both parts go together."),
    NULL};
static const graft_output *const outputs[] = {
    OUT("positive", "CONDITIONING", "The positive prompt with the picture."),
    OUT("negative", "CONDITIONING", "The negative prompt with the picture."),
    OUT("latent", "LATENT", "The encoded picture, to sample; lower denoise to keep more of it."),
    NULL};

static graft_status run(graft_call *c)
{
    graft_latent *whole = NULL, *known = NULL;
    graft_cond *positive = NULL, *negative = NULL;
    graft_status st;
    graft_call_phase(c, "encode");
    GRAFT_TRY(graft_vae_encode_known(graft_arg_vae(c, VAE), graft_arg_image(c, PIXELS),
                                     graft_arg_mask(c, MASK), graft_arg_bool(c, NOISE_MASK),
                                     &c->task, &whole, &known, &c->err));
    GRAFT_TRY(graft_cond_inpaint(graft_arg_cond(c, POSITIVE), known, &positive, &c->err));
    GRAFT_TRY(graft_cond_inpaint(graft_arg_cond(c, NEGATIVE), known, &negative, &c->err));
    GRAFT_TRY(graft_call_out_cond(c, 0, graft_cond_retain(positive)));
    GRAFT_TRY(graft_call_out_cond(c, 1, graft_cond_retain(negative)));
    GRAFT_TRY(graft_call_out_latent(c, 2, graft_latent_retain(whole)));
out:
    graft_cond_release(positive);
    graft_cond_release(negative);
    graft_latent_release(whole);
    graft_latent_release(known);
    return st;
}

GRAFT_NODE(inpaint_model_conditioning, .id = "InpaintModelConditioning",
           .title = "InpaintModelConditioning", .category = "conditioning/inpaint",
           .description = "Shows a model that was made for inpainting the picture around what it "
                          "paints. Other models get the encoded picture and its mask.");
