/* CLIPTextEncodeLumina2: a prompt behind what Lumina-Image 2.0 is told to be. */
#include "nodes/node.h"

enum { SYSTEM_PROMPT, USER_PROMPT, CLIP };
static const graft_input *const inputs[] = {
    [SYSTEM_PROMPT] =
        IN_CHOICE("system_prompt", CHOICES("superior", "alignment"),
                  "What the model is told to be, one of two that it was trained with: an assistant "
                  "for superior images, or one for images that follow the text."),
    [USER_PROMPT] =
        IN_PROMPT("user_prompt", "What the picture should show. (word:1.2) strengthens, (word:0.8) "
                                 "weakens."),
    [CLIP] = IN_OBJECT("clip", "CLIP", "Gemma 2: CLIPLoader with type lumina2."),
    NULL};
static const graft_output *const outputs[] = {
    OUT("CONDITIONING", "CONDITIONING", "The encoded prompt, for a sampler."), NULL};

static graft_status run(graft_call *c)
{
    graft_cond *cond = NULL;
    graft_call_phase(c, "encode");
    graft_status st = graft_clip_encode_lumina2(
        graft_arg_clip(c, CLIP),
        graft_arg_is(c, SYSTEM_PROMPT, "alignment") ? GRAFT_LUMINA2_ALIGNMENT
                                                    : GRAFT_LUMINA2_SUPERIOR,
        graft_arg_text(c, USER_PROMPT), &c->task, &cond, &c->err);
    return st != GRAFT_OK ? st : graft_call_out_cond(c, 0, cond);
}

QUERY_PROMPTS(USER_PROMPT, 1)

GRAFT_NODE(clip_text_encode_lumina2, .id = "CLIPTextEncodeLumina2",
           .title = "CLIP Text Encode for Lumina2", .category = "conditioning",
           .description = "Encodes a prompt for Lumina-Image 2.0 behind one of the texts that it "
                          "was trained with in front of prompts.",
           .query = query);
