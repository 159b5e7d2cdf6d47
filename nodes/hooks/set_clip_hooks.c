/* SetClipHooks: a text encoder that encodes with hooks. */
#include "nodes/node.h"

enum { CLIP, APPLY_TO_CONDS, SCHEDULE_CLIP, HOOKS };
static const graft_input *const inputs[] = {
    [CLIP] = IN_OBJECT("clip", "CLIP", "The text encoder."),
    [APPLY_TO_CONDS] =
        IN_BOOL("apply_to_conds", true,
                "Prompts that it encodes bring the hooks into sampling, too, so that they need no "
                "Cond Set Props for that."),
    [SCHEDULE_CLIP] =
        IN_BOOL("schedule_clip", false,
                "Encodes a prompt once for each strength that keyframes give the hooks, for the "
                "steps in which they have it. Otherwise keyframes are for the diffusion model "
                "alone."),
    [HOOKS] = IN_OBJECT("hooks", "HOOKS",
                        "The hooks, in place of earlier ones; without, nothing changes.",
                        .flags = GRAFT_INPUT_OPTIONAL),
    NULL};
static const graft_output *const outputs[] = {OUT("CLIP", "CLIP", "The encoder with the hooks."),
                                              NULL};

static graft_status run(graft_call *c)
{
    graft_clip *clip = NULL;
    if (!graft_arg_hooks(c, HOOKS)) return graft_call_out_same(c, 0, CLIP);
    graft_status st = graft_clip_hooks(graft_arg_clip(c, CLIP), graft_arg_hooks(c, HOOKS),
                                       graft_arg_bool(c, APPLY_TO_CONDS),
                                       graft_arg_bool(c, SCHEDULE_CLIP), &clip, &c->err);
    return st != GRAFT_OK ? st : graft_call_out_clip(c, 0, clip);
}

GRAFT_NODE(set_clip_hooks, .id = "SetClipHooks", .title = "Set CLIP Hooks",
           .category = "advanced/hooks/clip", .flags = GRAFT_NODE_EXPERIMENTAL,
           .description = "Encodes prompts with the text encoder's part of LoRAs and checkpoints, "
                          "and lets the prompts bring the rest into sampling.");
