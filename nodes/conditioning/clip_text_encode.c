/* CLIPTextEncode: a prompt as conditioning. */
#include "nodes/node.h"

enum { TEXT, CLIP };
static const graft_input *const inputs[] = {
    [TEXT] = IN_PROMPT("text",
                       "What the picture should show, or should not when it goes to the "
                       "negative input. (word:1.2) strengthens, (word:0.8) weakens. embedding:NAME "
                       "stands for the file NAME.safetensors in models/embeddings."),
    [CLIP] = IN_OBJECT("clip", "CLIP", "The text encoder that came with the model."),
    NULL};
static const graft_output *const outputs[] = {
    OUT("CONDITIONING", "CONDITIONING", "The encoded prompt, for a sampler."), NULL};

static graft_status run(graft_call *c)
{
    graft_cond *cond = NULL;
    graft_call_phase(c, "encode");
    graft_status st = graft_clip_encode(graft_arg_clip(c, CLIP), graft_arg_text(c, TEXT), &c->task,
                                        &cond, &c->err);
    return st != GRAFT_OK ? st : graft_call_out_cond(c, 0, cond);
}

QUERY_PROMPTS(TEXT, 1)

GRAFT_NODE(clip_text_encode, .id = "CLIPTextEncode", .title = "CLIP Text Encode (Prompt)",
           .category = "conditioning",
           .description = "Encodes a prompt with the model's text encoder, so that it can guide "
                          "sampling.",
           .query = query);
