/* What the nodes that load a diffusion model alone share. */
#ifndef GRAFT_NODES_UNET_FILE_H
#define GRAFT_NODES_UNET_FILE_H
#include "nodes/call/call.h"

extern const graft_input graft_unet_file_name;
extern const graft_output graft_unet_file_out; /* output 0 */
/* Loads the file in models/diffusion_models that this input names. */
graft_status graft_unet_file_run(graft_call *c, int name);
#endif
