/* LatentRotate: latents turned by right angles. */
#include "nodes/node.h"

enum { SAMPLES, ROTATION };
static const graft_input *const inputs[] = {
    [SAMPLES] = IN_OBJECT("samples", "LATENT", "The latents to turn."),
    [ROTATION] = IN_CHOICE("rotation", CHOICES("none", "90 degrees", "180 degrees", "270 degrees"),
                           "By how much, clockwise."),
    NULL};
static const graft_output *const outputs[] = {OUT("LATENT", "LATENT", "The turned latents."), NULL};

static graft_status run(graft_call *c)
{
    int turns = graft_arg_is(c, ROTATION, "90 degrees")    ? 1
                : graft_arg_is(c, ROTATION, "180 degrees") ? 2
                : graft_arg_is(c, ROTATION, "270 degrees") ? 3
                                                           : 0;
    graft_latent *latent = NULL;
    graft_status st = graft_latent_rotate(graft_arg_latent(c, SAMPLES), turns, &latent, &c->err);
    return st != GRAFT_OK ? st : graft_call_out_latent(c, 0, latent);
}

GRAFT_NODE(latent_rotate, .id = "LatentRotate", .title = "Rotate Latent",
           .category = "latent/transform",
           .description = "Turns latents, and their mask with them.");
