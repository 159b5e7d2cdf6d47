/* What the nodes that load and apply ControlNets share. */
#ifndef GRAFT_NODES_CONTROLNET_H
#define GRAFT_NODES_CONTROLNET_H
#include "nodes/call/call.h"

enum { GRAFT_CONTROLNET_NAME }; /* the first input of those for whole files: */
extern const graft_input graft_controlnet_name;
extern const graft_output graft_controlnet_out; /* output 0 */
const void *graft_controlnet_query(const char *id);
/* Loads the file that this input names; m: NULL, or the model whose weights are added to what it
 * holds. */
graft_status graft_controlnet_run(graft_call *c, int name, const graft_model *m);
/* What nodes that steer both prompts have: these inputs first, then a picture, a VAE, strength,
 * start and end, the last three one behind the other, and some a mask. run() of such a node; mask:
 * -1 where it has no such input. */
enum { GRAFT_CONTROLNET_POSITIVE, GRAFT_CONTROLNET_NEGATIVE, GRAFT_CONTROLNET_NET };
extern const graft_input graft_controlnet_positive, graft_controlnet_negative, graft_controlnet_net,
    graft_controlnet_image, graft_controlnet_strength, graft_controlnet_start, graft_controlnet_end;
extern const graft_output graft_controlnet_out_positive, graft_controlnet_out_negative;
graft_status graft_controlnet_apply(graft_call *c, int vae, int image, int mask, int strength);
#endif
