/* CheckpointLoaderSimple: the three parts of a Stable Diffusion checkpoint. */
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

GRAFT_NODE(checkpoint_loader_simple, .id = "CheckpointLoaderSimple", .title = "Load Checkpoint",
           .category = "loaders",
           .description = "Opens a checkpoint and gives its diffusion model, text encoder and VAE. "
                          "Weights are read when something needs them.",
           .query = query);
