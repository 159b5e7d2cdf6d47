/* CLIPMergeSimple: two text encoders mixed by a ratio. */
#include "nodes/node.h"

enum { CLIP1, CLIP2, RATIO };
static const graft_input *const inputs[] = {
    [CLIP1] = IN_OBJECT("clip1", "CLIP", "The text encoder that a ratio of 1 gives."),
    [CLIP2] = IN_OBJECT(
        "clip2", "CLIP",
        "The text encoder whose weights a ratio of 0 gives. It must have the same architecture."),
    [RATIO] = IN_FLOAT("ratio", 1.0, 0.0, 1.0, 0.01,
                       "How much of clip1 is in the result; the rest is clip2."),
    NULL};
static const graft_output *const outputs[] = {
    OUT("CLIP", "CLIP", "ratio * clip1 + (1 - ratio) * clip2, with the options of clip1."), NULL};

static graft_status run(graft_call *c)
{
    graft_clip *clip;
    graft_call_blame(c, CLIP2); /* may be of another architecture */
    graft_status st = graft_clip_merge(graft_arg_clip(c, CLIP1), graft_arg_clip(c, CLIP2),
                                       graft_arg_f64(c, RATIO), &clip, &c->err);
    return st != GRAFT_OK ? st : graft_call_out_clip(c, 0, clip);
}

GRAFT_NODE(clip_merge_simple, .id = "CLIPMergeSimple", .title = "CLIPMergeSimple",
           .category = "advanced/model_merging",
           .description = "Mixes the weights of two text encoders, LoRAs included. The compiled "
                          "graphs stay.");
