/* What the nodes share that put a ControlNet on a model instead of on prompts. */
#ifndef GRAFT_NODES_MODEL_PATCH_H
#define GRAFT_NODES_MODEL_PATCH_H
#include "nodes/call/call.h"

/* Their first inputs; strength is one of those behind. */
enum { GRAFT_MODEL_PATCH_MODEL, GRAFT_MODEL_PATCH_PATCH, GRAFT_MODEL_PATCH_VAE };
extern const graft_input graft_model_patch_model, graft_model_patch_patch, graft_model_patch_vae,
    graft_model_patch_strength;
extern const graft_output graft_model_patch_out; /* output 0 */
/* run() of such a node. inpaint: -1 where it has no such input. */
graft_status graft_model_patch_apply(graft_call *c, int strength, int image, int inpaint, int mask);
#endif
