/* LoraLoaderModelOnly: a LoRA on a diffusion model. */
#include "base/alloc.h"
#include "nodes/node.h"

enum { MODEL, LORA_NAME, STRENGTH_MODEL };
static const graft_input *const inputs[] = {
    [MODEL] = IN_OBJECT("model", "MODEL", "The diffusion model that the LoRA changes."),
    [LORA_NAME] =
        IN_CHOICE("lora_name", NULL, "The LoRA's file. Put .safetensors files into models/loras."),
    [STRENGTH_MODEL] = IN_FLOAT("strength_model", 1.0, -100.0, 100.0, 0.01,
                                "How strongly the diffusion model changes. 0 is no change, "
                                "negative values push the other way."),
    NULL};
static const graft_output *const outputs[] = {OUT("MODEL", "MODEL", "The model with the LoRA."),
                                              NULL};

static graft_status run(graft_call *c)
{
    graft_model *model = NULL;
    char *path = NULL;
    graft_status st;
    graft_call_phase(c, "load");
    GRAFT_TRY(graft_arg_file(c, LORA_NAME, "loras", &path));
    GRAFT_TRY(graft_lora_apply(graft_arg_model(c, MODEL), NULL, path,
                               graft_arg_f64(c, STRENGTH_MODEL), 0.0, &c->task, &model, NULL,
                               &c->err));
    GRAFT_TRY(graft_call_out_model(c, 0, model));
out:
    graft_free(path);
    return st;
}

QUERY_MODEL_FILE("loras", LORA_NAME)

GRAFT_NODE(lora_loader_model_only, .id = "LoraLoaderModelOnly", .title = "LoraLoaderModelOnly",
           .category = "loaders",
           .description = "Adds a LoRA to a diffusion model and leaves the text encoder alone.",
           .query = query);
