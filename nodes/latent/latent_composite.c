/* LatentComposite: one latent laid over another. */
#include "nodes/node.h"

enum { SAMPLES_TO, SAMPLES_FROM, X, Y, FEATHER };
static const graft_input *const inputs[] = {
    [SAMPLES_TO] = IN_OBJECT("samples_to", "LATENT", "The latents below."),
    [SAMPLES_FROM] = IN_OBJECT("samples_from", "LATENT", "The latents to lay over them."),
    [X] = IN_INT("x", 0, 0, 16384, 8, "Pixels from the left edge to what is laid over."),
    [Y] = IN_INT("y", 0, 0, 16384, 8, "Pixels from the top edge to what is laid over."),
    [FEATHER] = IN_INT("feather", 0, 0, 16384, 8,
                       "Over how many pixels it fades in at edges that lie inside."),
    NULL};
static const graft_output *const outputs[] = {OUT("LATENT", "LATENT", "Both in one."), NULL};

static graft_status run(graft_call *c)
{
    graft_latent *latent = NULL;
    graft_status st = graft_latent_composite(
        graft_arg_latent(c, SAMPLES_TO), graft_arg_latent(c, SAMPLES_FROM), graft_arg_i64(c, X),
        graft_arg_i64(c, Y), graft_arg_i64(c, FEATHER), &latent, &c->err);
    return st != GRAFT_OK ? st : graft_call_out_latent(c, 0, latent);
}

GRAFT_NODE(latent_composite, .id = "LatentComposite", .title = "Latent Composite",
           .category = "latent",
           .description = "Lays latents over others. Sample the result again with a denoise below "
                          "1 to join them.");
