/* CLIPTextEncodeSD3: a prompt with a text for each of Stable Diffusion 3's encoders. */
#include "nodes/node.h"

enum { CLIP, CLIP_L, CLIP_G, T5XXL, EMPTY_PADDING };
static const graft_input *const inputs[] = {
    [CLIP] = IN_OBJECT("clip", "CLIP", "SD 3's text encoders."),
    [CLIP_L] = IN_PROMPT("clip_l", "The prompt for the small CLIP encoder."),
    [CLIP_G] = IN_PROMPT("clip_g", "The prompt for the large CLIP encoder. Usually the same text."),
    [T5XXL] = IN_PROMPT("t5xxl", "The prompt for T5, which understands whole sentences. Without "
                                 "T5 among the encoders it has no effect."),
    [EMPTY_PADDING] = IN_CHOICE(
        "empty_padding", CHOICES("none", "empty_prompt"),
        "What empty prompts give: none leaves zeros in the place of both CLIP encoders and "
        "nothing of T5, empty_prompt encodes the empty text. An empty CLIP prompt "
        "beside one with words is encoded in any case."),
    NULL};
static const graft_output *const outputs[] = {
    OUT("CONDITIONING", "CONDITIONING", "The encoded prompt, for a sampler."), NULL};

static graft_status run(graft_call *c)
{
    graft_cond *cond = NULL;
    const char *text[T5XXL + 1];
    bool zeros = graft_arg_is(c, EMPTY_PADDING, "none");
    graft_call_phase(c, "encode");
    for (int i = CLIP_L; i <= T5XXL; i++) {
        text[i] = graft_arg_text(c, i);
        if (zeros && !text[i][0]) text[i] = NULL;
    }
    if (text[CLIP_L] && !text[CLIP_G]) text[CLIP_G] = "";
    if (text[CLIP_G] && !text[CLIP_L]) text[CLIP_L] = "";
    graft_status st = graft_clip_encode_sd3(graft_arg_clip(c, CLIP), text[CLIP_L], text[CLIP_G],
                                            text[T5XXL], &c->task, &cond, &c->err);
    return st != GRAFT_OK ? st : graft_call_out_cond(c, 0, cond);
}

QUERY_PROMPTS(CLIP_L, 3)

GRAFT_NODE(clip_text_encode_sd3, .id = "CLIPTextEncodeSD3", .title = "CLIPTextEncodeSD3",
           .category = "advanced/conditioning",
           .description = "Encodes a prompt for Stable Diffusion 3, with a text for each of its "
                          "three encoders.",
           .query = query);
