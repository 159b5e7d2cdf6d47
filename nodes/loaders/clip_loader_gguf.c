/* CLIPLoaderGGUF: CLIPLoader by ComfyUI-GGUF's name. */
#include "nodes/loaders/text_encoders.h"
#include "nodes/node.h"

enum { CLIP_NAME, TYPE };
static const graft_input *const inputs[] = {
    [CLIP_NAME] = &graft_text_encoders_one, [TYPE] = &graft_text_encoders_type_of_one, NULL};
static const graft_output *const outputs[] = {&graft_text_encoders_out, NULL};

static graft_status run(graft_call *c)
{
    return graft_text_encoders_run_typed(c, 1, TYPE);
}

QUERY_MODEL_FILE("text_encoders", CLIP_NAME)

GRAFT_NODE(clip_loader_gguf, .id = "CLIPLoaderGGUF", .title = "CLIPLoader (GGUF)",
           .category = "bootleg",
           .description = "For workflows made with ComfyUI-GGUF: Load CLIP takes the same files.",
           .query = query);
