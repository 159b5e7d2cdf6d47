/* CreateHookModelAsLora: a checkpoint whose weights prompts bring with them. */
#include "nodes/hooks/hook_inputs.h"

enum { CKPT_NAME, STRENGTH_MODEL, STRENGTH_CLIP, PREV_HOOKS };
static const graft_input *const inputs[] = {
    [CKPT_NAME] = IN_CHOICE("ckpt_name", NULL,
                            "The checkpoint, of the same architecture as the model. Put "
                            ".safetensors files into models/checkpoints."),
    [STRENGTH_MODEL] =
        IN_FLOAT("strength_model", 1.0, -20.0, 20.0, 0.01,
                 "How far the diffusion model goes towards the checkpoint: 1 is the checkpoint, 0 "
                 "no change. Keyframes multiply it."),
    [STRENGTH_CLIP] =
        IN_FLOAT("strength_clip", 1.0, -20.0, 20.0, 0.01, "Likewise for the text encoder."),
    [PREV_HOOKS] = IN_PREV_HOOKS(),
    NULL};
static const graft_output *const outputs[] = {OUT_HOOKS(), NULL};

static graft_status run(graft_call *c)
{
    static const graft_hook_inputs in = {CKPT_NAME, STRENGTH_MODEL, STRENGTH_CLIP, PREV_HOOKS};
    return graft_hook_inputs_checkpoint(c, &in);
}

QUERY_MODEL_FILE("checkpoints", CKPT_NAME)

GRAFT_NODE(
    create_hook_model_as_lora, .id = "CreateHookModelAsLora", .title = "Create Hook Model as LoRA",
    .category = "advanced/hooks/create", .flags = GRAFT_NODE_EXPERIMENTAL,
    .description = "Another checkpoint for some prompts, or for some of the steps. No model is "
                   "compiled for it.",
    .query = query);
