/* SaveQuantizedModel: a checkpoint whose chosen layers are stored quantized. */
#include "nodes/call/output.h"
#include "nodes/node.h"

enum { MODEL, FILENAME_PREFIX };
static const graft_input *const inputs[] = {
    [MODEL] = IN_OBJECT("model", "MODEL",
                        "A model from QuantizeModel that was calibrated, without LoRAs."),
    [FILENAME_PREFIX] = IN_TEXT("filename_prefix", "checkpoints/quantized",
                                "How the file's name begins, with its sub-folder; a number "
                                "follows. Loaders find what lies in checkpoints."),
    NULL};
static const graft_output *const outputs[] = {NULL};

typedef struct saved_model {
    const graft_model *model;
    const graft_task *task;
} saved_model;

static graft_status write_model(const void *what, const char *path, graft_err *e)
{
    const saved_model *s = what;
    return graft_model_save_quantized(s->model, path, s->task, e);
}

static graft_status run(graft_call *c)
{
    const saved_model model = {graft_arg_model(c, MODEL), &c->task};
    const graft_output_place place = {"output", graft_arg_text(c, FILENAME_PREFIX), ".safetensors",
                                      0, 0};
    if (c->task.compile_only) return GRAFT_OK;
    graft_call_phase(c, "save");
    return graft_output_write(c, &place, "models", write_model, &model);
}

QUERY_PREFIX()

GRAFT_NODE(save_quantized_model, .id = "SaveQuantizedModel", .title = "Save Quantized Model",
           .category = "graft", .flags = GRAFT_NODE_OUTPUT,
           .description = "Saves the model's whole checkpoint with the chosen layers quantized, in "
                          "the output folder. Checkpoint loaders read it without quantizing again.",
           .query = query);
