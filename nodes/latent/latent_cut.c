/* LatentCut: some columns, rows or layers of latents. */
#include "nodes/node.h"

enum { SAMPLES, DIM, INDEX, AMOUNT };
static const graft_input *const inputs[] = {
    [SAMPLES] = IN_OBJECT("samples", "LATENT", "The latents to take a part of."),
    [DIM] =
        IN_CHOICE("dim", CHOICES("x", "y", "t"),
                  "x takes columns, y rows, t layers of Qwen-Image-Layered, of which other latents "
                  "have one."),
    [INDEX] = IN_INT("index", 0, -16384, 16384, 1,
                     "Where the part begins, in places of the latent (8 pixels for most models) "
                     "or in layers; from the end where it is negative."),
    [AMOUNT] =
        IN_INT("amount", 1, 1, 16384, 1, "How many places or layers it has, if there are so many."),
    NULL};
static const graft_output *const outputs[] = {OUT("LATENT", "LATENT", "The part."), NULL};

static graft_status run(graft_call *c)
{
    graft_latent *latent = NULL;
    graft_status st =
        graft_latent_cut(graft_arg_latent(c, SAMPLES), graft_arg_axis(c, DIM),
                         graft_arg_i64(c, INDEX), graft_arg_i64(c, AMOUNT), &latent, &c->err);
    return st != GRAFT_OK ? st : graft_call_out_latent(c, 0, latent);
}

GRAFT_NODE(latent_cut, .id = "LatentCut", .title = "LatentCut", .category = "latent/advanced",
           .description = "Cuts some columns, rows or layers out of latents and their mask.");
