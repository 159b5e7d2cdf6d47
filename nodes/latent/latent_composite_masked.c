/* LatentCompositeMasked: one latent laid over another by a mask. */
#include "nodes/node.h"

enum { DESTINATION, SOURCE, X, Y, RESIZE_SOURCE, MASK };
static const graft_input *const inputs[] = {
    [DESTINATION] = IN_OBJECT("destination", "LATENT", "The latents below."),
    [SOURCE] = IN_OBJECT("source", "LATENT", "The latents to lay over them."),
    [X] = IN_INT("x", 0, 0, 16384, 8, "Pixels from the left edge to what is laid over."),
    [Y] = IN_INT("y", 0, 0, 16384, 8, "Pixels from the top edge to what is laid over."),
    [RESIZE_SOURCE] =
        IN_BOOL("resize_source", false, "Scales the source to the destination's size first."),
    [MASK] = IN_OBJECT(
        "mask", "MASK",
        "Where the source covers; it is scaled to the source. Without a mask all of it does.",
        .flags = GRAFT_INPUT_OPTIONAL),
    NULL};
static const graft_output *const outputs[] = {OUT("LATENT", "LATENT", "Both in one."), NULL};

static graft_status run(graft_call *c)
{
    graft_latent *latent = NULL;
    graft_status st = graft_latent_composite_masked(
        graft_arg_latent(c, DESTINATION), graft_arg_latent(c, SOURCE), graft_arg_i64(c, X),
        graft_arg_i64(c, Y), graft_arg_bool(c, RESIZE_SOURCE), graft_arg_mask(c, MASK), &latent,
        &c->err);
    return st != GRAFT_OK ? st : graft_call_out_latent(c, 0, latent);
}

GRAFT_NODE(latent_composite_masked, .id = "LatentCompositeMasked", .title = "LatentCompositeMasked",
           .category = "latent", .description = "Lays latents over others where a mask is white.");
