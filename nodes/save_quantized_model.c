/* SaveQuantizedModel: a checkpoint whose chosen layers are stored quantized. */
#include "nodes/node.h"
#include "nodes/output.h"

enum { MODEL, FILENAME_PREFIX };
static const graft_input *const inputs[] = {
    [MODEL] = IN_OBJECT("model", "MODEL",
                        "A model from QuantizeModel that was calibrated, without LoRAs."),
    [FILENAME_PREFIX] = IN_TEXT("filename_prefix", "checkpoints/quantized",
                                "How the file's name begins, with its sub-folder; a number "
                                "follows. Loaders find what lies in checkpoints."),
    NULL};
static const graft_output *const outputs[] = {NULL};

static graft_status run(graft_call *c)
{
    graft_output_file file = {NULL, NULL, NULL};
    graft_status st;
    if (c->task.compile_only) return GRAFT_OK;
    graft_call_phase(c, "save");
    GRAFT_TRY(graft_output_reserve(c, "output", graft_arg_text(c, FILENAME_PREFIX), ".safetensors",
                                   0, 0, &file));
    GRAFT_TRY(graft_model_save_quantized(graft_arg_model(c, MODEL), file.path, &c->task, &c->err));
    GRAFT_TRY(graft_output_show(c, "models", "output", &file));
out:
    graft_output_finish(c, &file);
    return st;
}

QUERY_PREFIX()

GRAFT_NODE(save_quantized_model, .id = "SaveQuantizedModel", .title = "Save Quantized Model",
           .category = "graft", .flags = GRAFT_NODE_OUTPUT,
           .description = "Saves the model's whole checkpoint with the chosen layers quantized, in "
                          "the output folder. Checkpoint loaders read it without quantizing again.",
           .query = query);
