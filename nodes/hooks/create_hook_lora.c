/* CreateHookLora: a LoRA that prompts bring with them. */
#include "nodes/hooks/hook_inputs.h"

enum { LORA_NAME, STRENGTH_MODEL, STRENGTH_CLIP, PREV_HOOKS };
static const graft_input *const inputs[] = {
    [LORA_NAME] =
        IN_CHOICE("lora_name", NULL, "The LoRA's file. Put .safetensors files into models/loras."),
    [STRENGTH_MODEL] = IN_HOOK_STRENGTH("strength_model", "diffusion model"),
    [STRENGTH_CLIP] = IN_HOOK_STRENGTH("strength_clip", "text encoder"),
    [PREV_HOOKS] = IN_PREV_HOOKS(),
    NULL};
static const graft_output *const outputs[] = {OUT_HOOKS(), NULL};

static graft_status run(graft_call *c)
{
    static const graft_hook_inputs in = {LORA_NAME, STRENGTH_MODEL, STRENGTH_CLIP, PREV_HOOKS};
    return graft_hook_inputs_lora(c, &in);
}

QUERY_MODEL_FILE("loras", LORA_NAME)

GRAFT_NODE(create_hook_lora, .id = "CreateHookLora", .title = "Create Hook LoRA",
           .category = "advanced/hooks/create", .flags = GRAFT_NODE_EXPERIMENTAL,
           .description = "A LoRA for some prompts, or for some of the steps, in place of one for "
                          "the whole model. No model is compiled for it.",
           .query = query);
