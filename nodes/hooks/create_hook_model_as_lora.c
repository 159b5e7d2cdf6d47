/* CreateHookModelAsLora: a checkpoint whose weights prompts bring with them. */
#include "base/alloc.h"
#include "nodes/hooks/hook_inputs.h"
#include "nodes/call/state.h"

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
    graft_hooks *hooks = NULL;
    graft_engine *engine;
    char *path = NULL;
    graft_status st;
    graft_call_phase(c, "load");
    GRAFT_TRY(graft_nodes_engine(&engine, &c->err));
    GRAFT_TRY(graft_arg_file(c, CKPT_NAME, "checkpoints", &path));
    GRAFT_TRY(graft_hooks_checkpoint(engine, graft_arg_hooks(c, PREV_HOOKS), path,
                                     graft_arg_f64(c, STRENGTH_MODEL),
                                     graft_arg_f64(c, STRENGTH_CLIP), &c->task, &hooks, &c->err));
    st = graft_call_out_hooks(c, 0, hooks);
out:
    graft_free(path);
    return st;
}

QUERY_MODEL_FILE("checkpoints", CKPT_NAME)

GRAFT_NODE(create_hook_model_as_lora, .id = "CreateHookModelAsLora",
           .title = "Create Hook Model as LoRA", .category = "advanced/hooks/create",
           .flags = GRAFT_NODE_EXPERIMENTAL,
           .description = "Another checkpoint for some prompts, or for some of the steps, compiled "
                          "once with the model.",
           .query = query);
