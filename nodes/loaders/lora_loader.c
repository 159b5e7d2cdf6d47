/* LoraLoader: a LoRA on a diffusion model and its text encoder. */
#include "base/alloc.h"
#include "nodes/node.h"

enum { MODEL, CLIP, LORA_NAME, STRENGTH_MODEL, STRENGTH_CLIP };
static const graft_input *const inputs[] = {
    [MODEL] = IN_OBJECT("model", "MODEL", "The diffusion model that the LoRA changes."),
    [CLIP] = IN_OBJECT("clip", "CLIP", "The text encoder that the LoRA changes."),
    [LORA_NAME] =
        IN_CHOICE("lora_name", NULL, "The LoRA's file. Put .safetensors files into models/loras."),
    [STRENGTH_MODEL] = IN_FLOAT("strength_model", 1.0, -100.0, 100.0, 0.01,
                                "How strongly the diffusion model changes. 0 is no change, "
                                "negative values push the other way."),
    [STRENGTH_CLIP] = IN_FLOAT("strength_clip", 1.0, -100.0, 100.0, 0.01,
                               "How strongly the text encoder changes. 0 is no change, negative "
                               "values push the other way."),
    NULL};
static const graft_output *const outputs[] = {OUT("MODEL", "MODEL", "The model with the LoRA."),
                                              OUT("CLIP", "CLIP", "The encoder with the LoRA."),
                                              NULL};

static graft_status run(graft_call *c)
{
    graft_model *model = NULL;
    graft_clip *clip = NULL;
    char *path = NULL;
    graft_status st;
    graft_call_phase(c, "load");
    GRAFT_TRY(graft_arg_file(c, LORA_NAME, "loras", &path));
    GRAFT_TRY(graft_lora_apply(graft_arg_model(c, MODEL), graft_arg_clip(c, CLIP), path,
                               graft_arg_f64(c, STRENGTH_MODEL), graft_arg_f64(c, STRENGTH_CLIP),
                               &c->task, &model, &clip, &c->err));
    st = graft_call_out_model(c, 0, model);
    graft_status st_clip = graft_call_out_clip(c, 1, clip);
    if (st == GRAFT_OK) st = st_clip;
out:
    graft_free(path);
    return st;
}

QUERY_MODEL_FILE("loras", LORA_NAME)

GRAFT_NODE(lora_loader, .id = "LoraLoader", .title = "Load LoRA", .category = "loaders",
           .description = "Adds a LoRA to a model and its text encoder. Several can follow one "
                          "another; changing a strength recompiles nothing.",
           .query = query);
