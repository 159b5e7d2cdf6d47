/* ReferenceLatent: a picture that FLUX.1 Kontext, FLUX.2, Qwen-Image-Edit or OmniGen2 is shown. */
#include "nodes/node.h"

enum { CONDITIONING, LATENT };
static const graft_input *const inputs[] = {
    [CONDITIONING] = IN_OBJECT("conditioning", "CONDITIONING", "What is to become of the picture."),
    [LATENT] = IN_OBJECT("latent", "LATENT",
                         "The encoded picture, of any size. Without one nothing changes.",
                         .flags = GRAFT_INPUT_OPTIONAL),
    NULL};
static const graft_output *const outputs[] = {
    OUT("CONDITIONING", "CONDITIONING", "The prompt with this picture behind those it has."), NULL};

static graft_status run(graft_call *c)
{
    graft_cond *prompt = graft_arg_cond(c, CONDITIONING), *cond = NULL;
    const graft_latent *picture = graft_arg_latent(c, LATENT);
    if (!picture) return graft_call_out_cond(c, 0, graft_cond_retain(prompt));
    graft_status st = graft_cond_reference(prompt, picture, &cond, &c->err);
    return st != GRAFT_OK ? st : graft_call_out_cond(c, 0, cond);
}

GRAFT_NODE(reference_latent, .id = "ReferenceLatent", .title = "ReferenceLatent",
           .category = "advanced/conditioning/edit_models",
           .description =
               "Shows a model that edits pictures, FLUX.1 Kontext, FLUX.2, Qwen-Image-Edit or "
               "OmniGen2, the picture that its prompt speaks of. Several, one node each, are seen "
               "together. Other models do not look at it.");
