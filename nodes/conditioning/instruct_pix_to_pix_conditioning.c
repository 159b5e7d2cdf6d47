/* InstructPixToPixConditioning: prompts with the picture that a model sees beside the latent. */
#include "nodes/node.h"

enum { POSITIVE, NEGATIVE, VAE, PIXELS };
static const graft_input *const inputs[] = {
    [POSITIVE] = IN_OBJECT("positive", "CONDITIONING", "What the picture should become or show."),
    [NEGATIVE] = IN_OBJECT("negative", "CONDITIONING", "What it should not show."),
    [VAE] = IN_OBJECT("vae", "VAE", "The VAE that belongs to the model."),
    [PIXELS] =
        IN_OBJECT("pixels", "IMAGE",
                  "The picture: to change for InstructPix2Pix, edges for FLUX.1 Canny, a map "
                  "of depths for FLUX.1 Depth."),
    NULL};
static const graft_output *const outputs[] = {
    OUT("positive", "CONDITIONING", "The positive prompt with the picture."),
    OUT("negative", "CONDITIONING", "The negative prompt with the picture."),
    OUT("latent", "LATENT", "An empty latent of the picture's size, to sample."), NULL};

static graft_status empty_like(const graft_latent *l, graft_latent **out, graft_err *e)
{
    int64_t s[4];
    graft_latent_data(l, s);
    return graft_latent_empty(s[1], 8 * s[3], 8 * s[2], s[0], out, e);
}

static graft_status run(graft_call *c)
{
    graft_latent *picture = NULL, *empty = NULL;
    graft_cond *positive = NULL, *negative = NULL;
    graft_status st;
    graft_call_phase(c, "encode");
    GRAFT_TRY(graft_vae_encode(graft_arg_vae(c, VAE), graft_arg_image(c, PIXELS), NULL, &c->task,
                               &picture, &c->err));
    GRAFT_TRY(empty_like(picture, &empty, &c->err));
    GRAFT_TRY(graft_cond_picture(graft_arg_cond(c, POSITIVE), picture, &positive, &c->err));
    GRAFT_TRY(graft_cond_picture(graft_arg_cond(c, NEGATIVE), picture, &negative, &c->err));
    GRAFT_TRY(graft_call_out_cond(c, 0, graft_cond_retain(positive)));
    GRAFT_TRY(graft_call_out_cond(c, 1, graft_cond_retain(negative)));
    GRAFT_TRY(graft_call_out_latent(c, 2, graft_latent_retain(empty)));
out:
    graft_cond_release(positive);
    graft_cond_release(negative);
    graft_latent_release(empty);
    graft_latent_release(picture);
    return st;
}

GRAFT_NODE(instruct_pix_to_pix_conditioning, .id = "InstructPixToPixConditioning",
           .title = "InstructPixToPixConditioning", .category = "conditioning/instructpix2pix",
           .description = "Shows a model that was made for it a picture beside the latent: "
                          "InstructPix2Pix, FLUX.1 Canny and Depth. Others do not look at it.");
