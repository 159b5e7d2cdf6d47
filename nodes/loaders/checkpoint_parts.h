/* What the nodes that open a checkpoint share, which one has by another program's name. */
#ifndef GRAFT_NODES_CHECKPOINT_PARTS_H
#define GRAFT_NODES_CHECKPOINT_PARTS_H
#include "nodes/call/call.h"

extern const graft_input graft_checkpoint_parts_name;
extern const graft_output graft_checkpoint_parts_out[3]; /* outputs 0 to 2 */
/* Loads the three parts of the file in models/checkpoints that this input names. */
graft_status graft_checkpoint_parts_run(graft_call *c, int name);
#endif
