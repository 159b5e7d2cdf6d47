/* LoraSave: differences of models as a LoRA. */
#include "nodes/call/metadata.h"
#include "nodes/node.h"
#include "nodes/call/output.h"

enum { FILENAME_PREFIX, RANK, LORA_TYPE, BIAS_DIFF, MODEL_DIFF, TEXT_ENCODER_DIFF };
static const graft_input *const inputs[] = {
    [FILENAME_PREFIX] = IN_TEXT("filename_prefix", "loras/ComfyUI_extracted_lora",
                                "How the file's name begins, with its sub-folder; a number "
                                "follows. Loaders find what lies in loras."),
    [RANK] = IN_INT("rank", 8, 1, 4096, 1,
                    "How many directions of each layer's difference are kept. More makes it "
                    "closer, and the file larger."),
    [LORA_TYPE] = IN_CHOICE("lora_type", CHOICES("standard", "full_diff"),
                            "standard keeps the best of that rank; full_diff all of the "
                            "difference, in a file as large as a model."),
    [BIAS_DIFF] = IN_BOOL("bias_diff", true, "Also saves what changed in biases and norms."),
    [MODEL_DIFF] = IN_OBJECT("model_diff", "MODEL", "What ModelMergeSubtract gives.",
                             .flags = GRAFT_INPUT_OPTIONAL),
    [TEXT_ENCODER_DIFF] = IN_OBJECT("text_encoder_diff", "CLIP", "What CLIPMergeSubtract gives.",
                                    .flags = GRAFT_INPUT_OPTIONAL),
    NULL};
static const graft_output *const outputs[] = {NULL};

typedef struct saved_lora {
    const graft_lora_made *made;
    const graft_metadata *metadata;
    const graft_task *task;
} saved_lora;

static graft_status write_lora(const void *what, const char *path, graft_err *e)
{
    const saved_lora *s = what;
    return graft_lora_save(s->made, path, (const char *const *)s->metadata->pairs, s->task, e);
}

static graft_status run(graft_call *c)
{
    const graft_lora_made made = {.model = graft_arg_model(c, MODEL_DIFF),
                                  .clip = graft_arg_clip(c, TEXT_ENCODER_DIFF),
                                  .rank = graft_arg_i64(c, RANK),
                                  .whole = graft_arg_is(c, LORA_TYPE, "full_diff"),
                                  .biases = graft_arg_bool(c, BIAS_DIFF)};
    graft_metadata metadata = GRAFT_METADATA_INIT;
    const saved_lora lora = {&made, &metadata, &c->task};
    const graft_output_place place = {"output", graft_arg_text(c, FILENAME_PREFIX), ".safetensors",
                                      0, 0};
    if (c->task.compile_only || (!made.model && !made.clip)) return GRAFT_OK;
    graft_call_phase(c, "save");
    graft_status st = graft_metadata_read(c, &metadata);
    if (!st) st = graft_output_write(c, &place, "loras", write_lora, &lora);
    graft_metadata_finish(&metadata);
    return st;
}

QUERY_PREFIX()

GRAFT_NODE(lora_save, .id = "LoraSave", .title = "Extract and Save Lora",
           .category = "_for_testing", .flags = GRAFT_NODE_OUTPUT,
           .description = "Saves the difference of two models, of their text encoders, or both, as "
                          "a LoRA in the output folder.",
           .query = query);
