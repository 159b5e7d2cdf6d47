/* FluxKontextMultiReferenceLatentMethod: where several references stand. */
#include <string.h>

#include "nodes/node.h"

enum { CONDITIONING, METHOD };
static const graft_input *const inputs[] = {
    [CONDITIONING] = IN_OBJECT("conditioning", "CONDITIONING", "A prompt with its references."),
    [METHOD] = IN_CHOICE("reference_latents_method",
                         CHOICES("offset", "index", "uxo/uno", "index_timestep_zero"),
                         "offset: side by side, as if they were one large picture, which Kontext "
                         "was trained with. index: each by itself. uxo/uno: along the "
                         "diagonal, below and to the right of the picture, for models and LoRAs "
                         "that were trained so (UNO, USO). index_timestep_zero: each by itself, "
                         "and Qwen-Image-Edit-2511 is told that there is no noise in them. "
                         "Qwen-Image, FLUX.2 and OmniGen2 have each by itself in any case."),
    NULL};
static const graft_output *const outputs[] = {
    OUT("CONDITIONING", "CONDITIONING", "The prompt, whose references stand so."), NULL};

static graft_status run(graft_call *c)
{
    graft_cond *cond = NULL;
    const char *method = graft_arg_text(c, METHOD);
    graft_placing how = strcmp(method, "index") == 0                 ? GRAFT_PLACE_BEHIND
                        : strcmp(method, "uxo/uno") == 0             ? GRAFT_PLACE_DIAGONAL
                        : strcmp(method, "index_timestep_zero") == 0 ? GRAFT_PLACE_CLEAN
                                                                     : GRAFT_PLACE_BESIDE;
    graft_status st =
        graft_cond_place_references(graft_arg_cond(c, CONDITIONING), how, &cond, &c->err);
    return st != GRAFT_OK ? st : graft_call_out_cond(c, 0, cond);
}

GRAFT_NODE(flux_kontext_multi_reference_latent_method,
           .id = "FluxKontextMultiReferenceLatentMethod",
           .title = "FluxKontextMultiReferenceLatentMethod",
           .category = "advanced/conditioning/flux",
           .description = "Tells FLUX.1 Kontext where the pictures of ReferenceLatent nodes "
                          "stand, and Qwen-Image-Edit that they have no noise. offset and index "
                          "are the same for a single one.");
