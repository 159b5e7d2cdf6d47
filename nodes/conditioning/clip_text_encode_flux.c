/* CLIPTextEncodeFlux: a prompt with a text for each of FLUX's encoders. */
#include "nodes/node.h"

enum { CLIP, CLIP_L, T5XXL, GUIDANCE };
static const graft_input *const inputs[] = {
    [CLIP] = IN_OBJECT("clip", "CLIP", "FLUX's text encoders."),
    [CLIP_L] =
        IN_PROMPT("clip_l", "The prompt for CLIP, which sets the tone of the whole picture."),
    [T5XXL] =
        IN_PROMPT("t5xxl", "The prompt for T5, which understands whole sentences. Usually the "
                           "same text."),
    [GUIDANCE] = IN_FLOAT("guidance", 3.5, 0.0, 100.0, 0.1,
                          "How closely the picture follows the prompt, as by FluxGuidance."),
    NULL};
static const graft_output *const outputs[] = {
    OUT("CONDITIONING", "CONDITIONING", "The encoded prompt, for a sampler."), NULL};

static graft_status run(graft_call *c)
{
    graft_cond *plain = NULL, *cond = NULL;
    graft_call_phase(c, "encode");
    graft_status st = graft_clip_encode_flux(graft_arg_clip(c, CLIP), graft_arg_text(c, CLIP_L),
                                             graft_arg_text(c, T5XXL), &c->task, &plain, &c->err);
    if (!st) st = graft_cond_guidance(plain, graft_arg_f64(c, GUIDANCE), &cond, &c->err);
    graft_cond_release(plain);
    return st != GRAFT_OK ? st : graft_call_out_cond(c, 0, cond);
}

QUERY_PROMPTS(CLIP_L, 2)

GRAFT_NODE(clip_text_encode_flux, .id = "CLIPTextEncodeFlux", .title = "CLIPTextEncodeFlux",
           .category = "advanced/conditioning/flux",
           .description = "Encodes a prompt for FLUX.1, with a text for each of its two encoders "
                          "and the guidance scale.",
           .query = query);
