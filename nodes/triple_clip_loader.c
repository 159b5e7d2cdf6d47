/* TripleCLIPLoader: Stable Diffusion 3's text encoders from three files. */
#include "nodes/node.h"
#include "nodes/text_encoders.h"

enum { CLIP_NAME1, CLIP_NAME2, CLIP_NAME3, FILES };
static const graft_input *const inputs[] = {
    [CLIP_NAME1] = IN_CHOICE("clip_name1", NULL,
                             "One of the three encoder files: CLIP-L, CLIP-G and T5-XXL. The order "
                             "does not matter."),
    [CLIP_NAME2] = IN_CHOICE("clip_name2", NULL, "Another one."),
    [CLIP_NAME3] = IN_CHOICE("clip_name3", NULL, "The last one."),
    NULL};
static const graft_output *const outputs[] = {
    OUT("CLIP", "CLIP", "All three encoders as one, for prompts."), NULL};

static graft_status run(graft_call *c)
{
    return graft_text_encoders_run(c, CLIP_NAME1, FILES, "sd3");
}

QUERY_MODEL_FILES("text_encoders", CLIP_NAME1, FILES)

GRAFT_NODE(triple_clip_loader, .id = "TripleCLIPLoader", .title = "TripleCLIPLoader",
           .category = "advanced/loaders",
           .description = "Opens the three text encoders of Stable Diffusion 3 from separate "
                          "files: CLIP-L, CLIP-G and T5-XXL.",
           .query = query);
