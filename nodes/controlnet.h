/* What the nodes that load and apply ControlNets share. */
#ifndef GRAFT_NODES_CONTROLNET_H
#define GRAFT_NODES_CONTROLNET_H
#include "nodes/call.h"

enum { GRAFT_CONTROLNET_NAME }; /* the first input of those for whole files: */
extern const graft_input graft_controlnet_name;
extern const graft_output graft_controlnet_out; /* output 0 */
const void *graft_controlnet_query(const char *id);
/* Loads the file that this input names; m: NULL, or the model whose weights are added to what it
 * holds. */
graft_status graft_controlnet_run(graft_call *c, int name, const graft_model *m);
/* Both prompts, inputs of these numbers, steered: outputs 0 and 1. */
graft_status graft_controlnet_apply(graft_call *c, int positive, int negative,
                                    const graft_control_options *options);
#endif
