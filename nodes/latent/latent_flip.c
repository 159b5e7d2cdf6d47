/* LatentFlip: latents mirrored. */
#include "nodes/node.h"

enum { SAMPLES, FLIP_METHOD };
static const graft_input *const inputs[] = {
    [SAMPLES] = IN_OBJECT("samples", "LATENT", "The latents to mirror."),
    [FLIP_METHOD] = IN_CHOICE("flip_method", CHOICES("x-axis: vertically", "y-axis: horizontally"),
                              "vertically: upside down. horizontally: left to right."),
    NULL};
static const graft_output *const outputs[] = {OUT("LATENT", "LATENT", "The mirrored latents."),
                                              NULL};

static graft_status run(graft_call *c)
{
    graft_latent *latent = NULL;
    graft_status st =
        graft_latent_flip(graft_arg_latent(c, SAMPLES),
                          graft_arg_is(c, FLIP_METHOD, "x-axis: vertically"), &latent, &c->err);
    return st != GRAFT_OK ? st : graft_call_out_latent(c, 0, latent);
}

GRAFT_NODE(latent_flip, .id = "LatentFlip", .title = "Flip Latent", .category = "latent/transform",
           .description = "Mirrors latents, and their mask with them.");
