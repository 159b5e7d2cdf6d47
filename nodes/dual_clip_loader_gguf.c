/* DualCLIPLoaderGGUF: DualCLIPLoader by ComfyUI-GGUF's name. */
#include "nodes/node.h"
#include "nodes/text_encoders.h"

enum { CLIP_NAME1, CLIP_NAME2, TYPE };
static const graft_input *const inputs[] = {
    [CLIP_NAME1] = IN_CHOICE("clip_name1", NULL,
                             "One of the two encoder files, .gguf or .safetensors; the order does "
                             "not matter."),
    [CLIP_NAME2] = IN_CHOICE("clip_name2", NULL, "The other encoder file."),
    [TYPE] = &graft_text_encoders_type_of_two,
    NULL};
static const graft_output *const outputs[] = {
    OUT("CLIP", "CLIP", "Both encoders as one, for prompts."), NULL};

static graft_status run(graft_call *c)
{
    return graft_text_encoders_run_typed(c, CLIP_NAME1, 2, TYPE);
}

QUERY_MODEL_FILES("text_encoders", CLIP_NAME1, 2)

GRAFT_NODE(dual_clip_loader_gguf, .id = "DualCLIPLoaderGGUF", .title = "DualCLIPLoader (GGUF)",
           .category = "bootleg",
           .description = "For workflows made with ComfyUI-GGUF: DualCLIPLoader takes the same "
                          "files.",
           .query = query);
