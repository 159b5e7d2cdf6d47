/* CLIPSetLastLayer: "CLIP skip". */
#include "nodes/node.h"

enum { CLIP, STOP_AT_CLIP_LAYER };
static const graft_input *const inputs[] = {
    [CLIP] = IN_OBJECT("clip", "CLIP", "The text encoder to change."),
    [STOP_AT_CLIP_LAYER] =
        IN_INT("stop_at_clip_layer", -1, -24, -1, 1,
               "Which layer's result is used: -1 is the last, -2 the one before. Many anime models "
               "want -2."),
    NULL};
static const graft_output *const outputs[] = {
    OUT("CLIP", "CLIP", "The encoder that stops at this layer."), NULL};

static graft_status run(graft_call *c)
{
    graft_clip *clip = NULL;
    graft_status st = graft_clip_set_last_layer(
        graft_arg_clip(c, CLIP), graft_arg_i64(c, STOP_AT_CLIP_LAYER), &clip, &c->err);
    return st != GRAFT_OK ? st : graft_call_out_clip(c, 0, clip);
}

GRAFT_NODE(clip_set_last_layer, .id = "CLIPSetLastLayer", .title = "CLIP Set Last Layer",
           .category = "conditioning",
           .description = "Takes prompts from an earlier layer of the text encoder, known as CLIP "
                          "skip.");
