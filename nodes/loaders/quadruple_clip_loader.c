/* QuadrupleCLIPLoader: HiDream-I1's text encoders from four files. */
#include "nodes/loaders/text_encoders.h"
#include "nodes/node.h"

enum { CLIP_NAME1, CLIP_NAME2, CLIP_NAME3, CLIP_NAME4, FILES };
static const graft_input *const inputs[] = {[CLIP_NAME1] = &graft_text_encoders_four[0],
                                            [CLIP_NAME2] = &graft_text_encoders_four[1],
                                            [CLIP_NAME3] = &graft_text_encoders_four[2],
                                            [CLIP_NAME4] = &graft_text_encoders_four[3],
                                            NULL};
static const graft_output *const outputs[] = {&graft_text_encoders_out, NULL};

static graft_status run(graft_call *c)
{
    return graft_text_encoders_run(c, FILES, "hidream");
}

QUERY_MODEL_FILES("text_encoders", CLIP_NAME1, FILES)

GRAFT_NODE(quadruple_clip_loader, .id = "QuadrupleCLIPLoader", .title = "QuadrupleCLIPLoader",
           .category = "advanced/loaders",
           .description = "Opens the four text encoders of HiDream-I1 from separate files: CLIP-L, "
                          "CLIP-G, T5-XXL and Llama 3.1 8B, which needs its tokenizer.json beside "
                          "it.",
           .query = query);
