/* What the two nodes that load ControlNets share. */
#ifndef GRAFT_NODES_CONTROLNET_H
#define GRAFT_NODES_CONTROLNET_H
#include "nodes/call.h"

enum { GRAFT_CONTROLNET_NAME }; /* the first input: */
extern const graft_input graft_controlnet_name;
extern const graft_output graft_controlnet_out; /* output 0 */
const void *graft_controlnet_query(const char *id);
/* Loads the file that the first input names. */
graft_status graft_controlnet_run(graft_call *c);
#endif
