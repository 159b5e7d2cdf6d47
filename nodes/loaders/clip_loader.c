/* CLIPLoader: one text encoder from a file of its own. */
#include "nodes/loaders/text_encoders.h"
#include "nodes/node.h"

enum { CLIP_NAME, TYPE, DEVICE };
static const graft_input *const inputs[] = {
    [CLIP_NAME] = &graft_text_encoders_one,
    [TYPE] = &graft_text_encoders_type_of_one,
    [DEVICE] = IN_CHOICE("device", CHOICES("default", "cpu"),
                         "Where the encoder runs. Both choices use the device of the engine.",
                         .flags = GRAFT_INPUT_OPTIONAL | GRAFT_INPUT_ADVANCED),
    NULL};
static const graft_output *const outputs[] = {&graft_text_encoders_out, NULL};

static graft_status run(graft_call *c)
{
    return graft_text_encoders_run_typed(c, 1, TYPE);
}

QUERY_MODEL_FILE("text_encoders", CLIP_NAME)

GRAFT_NODE(clip_loader, .id = "CLIPLoader", .title = "Load CLIP", .category = "advanced/loaders",
           .description = "Opens a text encoder that comes in a file of its own. Stable Diffusion "
                          "1 and 2 use one such encoder; Stable Diffusion 3 can make do with one.",
           .query = query);
