/* CLIPTextEncodeHiDream: a prompt with a text for each of HiDream-I1's encoders. */
#include "nodes/node.h"

enum { CLIP, CLIP_L, CLIP_G, T5XXL, LLAMA };
static const graft_input *const inputs[] = {
    [CLIP] = IN_OBJECT("clip", "CLIP", "HiDream's text encoders."),
    [CLIP_L] = IN_PROMPT("clip_l", "The prompt for the small CLIP encoder, which gives one vector "
                                   "of all of it."),
    [CLIP_G] = IN_PROMPT("clip_g", "The prompt for the large CLIP encoder, likewise. Usually the "
                                   "same text."),
    [T5XXL] = IN_PROMPT("t5xxl", "The prompt for T5. Without T5 among the encoders it has no "
                                 "effect."),
    [LLAMA] = IN_PROMPT("llama", "The prompt for Llama. Weights in brackets have no effect on it."),
    NULL};
static const graft_output *const outputs[] = {
    OUT("CONDITIONING", "CONDITIONING", "The encoded prompt, for a sampler."), NULL};

static graft_status run(graft_call *c)
{
    graft_cond *cond = NULL;
    graft_call_phase(c, "encode");
    graft_status st = graft_clip_encode_hidream(graft_arg_clip(c, CLIP), graft_arg_text(c, CLIP_L),
                                                graft_arg_text(c, CLIP_G), graft_arg_text(c, T5XXL),
                                                graft_arg_text(c, LLAMA), &c->task, &cond, &c->err);
    return st != GRAFT_OK ? st : graft_call_out_cond(c, 0, cond);
}

QUERY_PROMPTS(CLIP_L, 4)

GRAFT_NODE(clip_text_encode_hidream, .id = "CLIPTextEncodeHiDream",
           .title = "CLIPTextEncodeHiDream", .category = "advanced/conditioning",
           .description = "Encodes a prompt for HiDream-I1, with a text for each of its four "
                          "encoders.",
           .query = query);
