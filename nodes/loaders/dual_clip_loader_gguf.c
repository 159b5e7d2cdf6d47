/* DualCLIPLoaderGGUF: DualCLIPLoader by ComfyUI-GGUF's name. */
#include "nodes/loaders/text_encoders.h"
#include "nodes/node.h"

enum { CLIP_NAME1, CLIP_NAME2, TYPE };
static const graft_input *const inputs[] = {[CLIP_NAME1] = &graft_text_encoders_two[0],
                                            [CLIP_NAME2] = &graft_text_encoders_two[1],
                                            [TYPE] = &graft_text_encoders_type_of_two,
                                            NULL};
static const graft_output *const outputs[] = {&graft_text_encoders_out, NULL};

static graft_status run(graft_call *c)
{
    return graft_text_encoders_run_typed(c, 2, TYPE);
}

QUERY_MODEL_FILES("text_encoders", CLIP_NAME1, 2)

GRAFT_NODE(dual_clip_loader_gguf, .id = "DualCLIPLoaderGGUF", .title = "DualCLIPLoader (GGUF)",
           .category = "bootleg",
           .description = "For workflows made with ComfyUI-GGUF: DualCLIPLoader takes the same "
                          "files.",
           .query = query);
