/* CheckpointLoaderNF4: CheckpointLoaderSimple by the name that ComfyUI's extension for bitsandbytes
 * has for it. */
#include "nodes/loaders/checkpoint_parts.h"
#include "nodes/node.h"

enum { CKPT_NAME };
static const graft_input *const inputs[] = {[CKPT_NAME] = &graft_checkpoint_parts_name, NULL};
static const graft_output *const outputs[] = {&graft_checkpoint_parts_out[0],
                                              &graft_checkpoint_parts_out[1],
                                              &graft_checkpoint_parts_out[2], NULL};

static graft_status run(graft_call *c)
{
    return graft_checkpoint_parts_run(c, CKPT_NAME);
}

QUERY_MODEL_FILE("checkpoints", CKPT_NAME)

GRAFT_NODE(checkpoint_loader_nf4, .id = "CheckpointLoaderNF4", .title = "CheckpointLoaderNF4",
           .category = "loaders",
           .description =
               "For workflows made with ComfyUI_bitsandbytes_NF4: Load Checkpoint takes the "
               "same files.",
           .query = query);
