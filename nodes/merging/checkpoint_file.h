/* Saving models under a reserved name in the output folder. */
#ifndef GRAFT_NODES_CHECKPOINT_FILE_H
#define GRAFT_NODES_CHECKPOINT_FILE_H
#include "nodes/call/call.h"

/* Writes what `what` names as <prefix>_NNNNN_.safetensors with the workflow in it, and shows it
 * under "models". Nothing where the job only compiles. */
graft_status graft_checkpoint_file_write(graft_call *c, const graft_checkpoint *what,
                                         const char *prefix);
#endif
