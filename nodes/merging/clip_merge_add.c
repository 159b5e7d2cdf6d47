/* CLIPMergeAdd: the sum of two text encoders. */
#include "nodes/node.h"

enum { CLIP1, CLIP2 };
static const graft_input *const inputs[] = {
    [CLIP1] = IN_OBJECT("clip1", "CLIP", "The text encoder to add to."),
    [CLIP2] = IN_OBJECT("clip2", "CLIP",
                        "What to add: most often a difference that CLIPMergeSubtract made. It must "
                        "have the same architecture."),
    NULL};
static const graft_output *const outputs[] = {
    OUT("CLIP", "CLIP", "clip1 + clip2, with the options of clip1."), NULL};

static graft_status run(graft_call *c)
{
    graft_clip *clip;
    graft_call_blame(c, CLIP2); /* may be of another architecture */
    graft_status st =
        graft_clip_merge_add(graft_arg_clip(c, CLIP1), graft_arg_clip(c, CLIP2), &clip, &c->err);
    return st != GRAFT_OK ? st : graft_call_out_clip(c, 0, clip);
}

GRAFT_NODE(clip_merge_add, .id = "CLIPMergeAdd", .title = "CLIPMergeAdd",
           .category = "advanced/model_merging",
           .description = "Adds the weights of two text encoders. The compiled graphs stay.");
