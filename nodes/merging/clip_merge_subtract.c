/* CLIPMergeSubtract: the difference of two text encoders. */
#include "nodes/node.h"

enum { CLIP1, CLIP2, MULTIPLIER };
static const graft_input *const inputs[] = {
    [CLIP1] = IN_OBJECT("clip1", "CLIP", "The text encoder to subtract from."),
    [CLIP2] = IN_OBJECT("clip2", "CLIP",
                        "The text encoder to subtract. It must have the same architecture."),
    [MULTIPLIER] = IN_FLOAT("multiplier", 1.0, -10.0, 10.0, 0.01, "Factor of the difference."),
    NULL};
static const graft_output *const outputs[] = {
    OUT("CLIP", "CLIP",
        "multiplier * (clip1 - clip2), with the options of clip1: a difference, which CLIPMergeAdd "
        "adds to a text encoder."),
    NULL};

static graft_status run(graft_call *c)
{
    graft_clip *clip;
    graft_call_blame(c, CLIP2); /* may be of another architecture */
    graft_status st = graft_clip_merge_subtract(graft_arg_clip(c, CLIP1), graft_arg_clip(c, CLIP2),
                                                graft_arg_f64(c, MULTIPLIER), &clip, &c->err);
    return st != GRAFT_OK ? st : graft_call_out_clip(c, 0, clip);
}

GRAFT_NODE(clip_merge_subtract, .id = "CLIPMergeSubtract", .title = "CLIPMergeSubtract",
           .category = "advanced/model_merging",
           .description = "Subtracts the weights of one text encoder from another's.");
