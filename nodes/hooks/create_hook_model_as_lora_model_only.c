/* CreateHookModelAsLoraModelOnly: a checkpoint whose weights prompts bring with them, for the
 * diffusion model alone. */
#include "nodes/hooks/hook_inputs.h"

enum { CKPT_NAME, STRENGTH_MODEL, PREV_HOOKS };
static const graft_input *const inputs[] = {
    [CKPT_NAME] = IN_CHOICE("ckpt_name", NULL,
                            "The checkpoint, of the same architecture as the model. Put "
                            ".safetensors files into models/checkpoints."),
    [STRENGTH_MODEL] =
        IN_FLOAT("strength_model", 1.0, -20.0, 20.0, 0.01,
                 "How far the diffusion model goes towards the checkpoint: 1 is the checkpoint, 0 "
                 "no change. Keyframes multiply it."),
    [PREV_HOOKS] = IN_PREV_HOOKS(),
    NULL};
static const graft_output *const outputs[] = {OUT_HOOKS(), NULL};

static graft_status run(graft_call *c)
{
    static const graft_hook_inputs in = {CKPT_NAME, STRENGTH_MODEL, GRAFT_HOOK_ALONE, PREV_HOOKS};
    return graft_hook_inputs_checkpoint(c, &in);
}

QUERY_MODEL_FILE("checkpoints", CKPT_NAME)

GRAFT_NODE(create_hook_model_as_lora_model_only, .id = "CreateHookModelAsLoraModelOnly",
           .title = "Create Hook Model as LoRA (MO)", .category = "advanced/hooks/create",
           .flags = GRAFT_NODE_EXPERIMENTAL,
           .description =
               "Another checkpoint's diffusion model for some prompts, or for some of the steps.",
           .query = query);
