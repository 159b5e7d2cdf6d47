/* LatentCutToBatch: parts of latents as a batch. */
#include "nodes/node.h"

enum { SAMPLES, DIM, SLICE_SIZE };
static const graft_input *const inputs[] = {
    [SAMPLES] = IN_OBJECT("samples", "LATENT", "The latents to take apart."),
    [DIM] = IN_CHOICE("dim", CHOICES("t", "x", "y"),
                      "t takes the layers of Qwen-Image-Layered apart, x columns, y rows."),
    [SLICE_SIZE] = IN_INT("slice_size", 1, 1, 16384, 1,
                          "How many layers a part has, or places of the latent (8 pixels for most "
                          "models). What is left at the end goes."),
    NULL};
static const graft_output *const outputs[] = {
    OUT("LATENT", "LATENT", "The parts, those of a picture one behind the other."), NULL};

static graft_status run(graft_call *c)
{
    graft_latent *latent = NULL;
    graft_status st =
        graft_latent_cut_to_batch(graft_arg_latent(c, SAMPLES), graft_arg_axis(c, DIM),
                                  graft_arg_i64(c, SLICE_SIZE), &latent, &c->err);
    return st != GRAFT_OK ? st : graft_call_out_latent(c, 0, latent);
}

GRAFT_NODE(latent_cut_to_batch, .id = "LatentCutToBatch", .title = "LatentCutToBatch",
           .category = "latent/advanced",
           .description = "Takes latents apart into a batch of smaller ones: with t the layers "
                          "that Qwen-Image-Layered makes into pictures of their own.");
