/* DualCLIPLoader: a pair of text encoders from two files. */
#include "nodes/loaders/text_encoders.h"
#include "nodes/node.h"

enum { CLIP_NAME1, CLIP_NAME2, TYPE, DEVICE };
static const graft_input *const inputs[] = {
    [CLIP_NAME1] = &graft_text_encoders_two[0],
    [CLIP_NAME2] = &graft_text_encoders_two[1],
    [TYPE] = &graft_text_encoders_type_of_two,
    [DEVICE] = IN_CHOICE("device", CHOICES("default", "cpu"),
                         "Where the encoders run. Both choices use the device of the engine.",
                         .flags = GRAFT_INPUT_OPTIONAL | GRAFT_INPUT_ADVANCED),
    NULL};
static const graft_output *const outputs[] = {&graft_text_encoders_out, NULL};

static graft_status run(graft_call *c)
{
    return graft_text_encoders_run_typed(c, 2, TYPE);
}

QUERY_MODEL_FILES("text_encoders", CLIP_NAME1, 2)

GRAFT_NODE(dual_clip_loader, .id = "DualCLIPLoader", .title = "DualCLIPLoader",
           .category = "advanced/loaders",
           .description =
               "Opens two text encoders from separate files: SDXL's CLIP-L and CLIP-G, two of "
               "the three of Stable Diffusion 3, or FLUX's CLIP-L and T5.",
           .query = query);
