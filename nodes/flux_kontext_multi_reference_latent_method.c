/* FluxKontextMultiReferenceLatentMethod: where several references stand. */
#include <string.h>

#include "nodes/node.h"

enum { CONDITIONING, METHOD };
static const graft_input *const inputs[] = {
    [CONDITIONING] = IN_OBJECT("conditioning", "CONDITIONING", "A prompt with its references."),
    [METHOD] = IN_CHOICE("reference_latents_method", CHOICES("offset", "index"),
                         "offset: side by side, as if they were one large picture, which Kontext "
                         "was trained with. index: each by itself."),
    NULL};
static const graft_output *const outputs[] = {
    OUT("CONDITIONING", "CONDITIONING", "The prompt, whose references stand so."), NULL};

static graft_status run(graft_call *c)
{
    graft_cond *cond = NULL;
    bool by_index = strcmp(graft_arg_text(c, METHOD), "index") == 0;
    graft_status st =
        graft_cond_references_by_index(graft_arg_cond(c, CONDITIONING), by_index, &cond, &c->err);
    return st != GRAFT_OK ? st : graft_call_out_cond(c, 0, cond);
}

GRAFT_NODE(
    flux_kontext_multi_reference_latent_method, .id = "FluxKontextMultiReferenceLatentMethod",
    .title = "FluxKontextMultiReferenceLatentMethod", .category = "advanced/conditioning/flux",
    .description = "Tells FLUX.1 Kontext where the pictures of several ReferenceLatent nodes "
                   "stand. Of one alone it changes nothing.");
