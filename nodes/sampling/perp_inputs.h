/* Inputs that the two nodes for Perp-Neg have. */
#ifndef GRAFT_NODES_PERP_INPUTS_H
#define GRAFT_NODES_PERP_INPUTS_H
#include "nodes/sampling/sampler_inputs.h"

#define IN_EMPTY_PROMPT()                                                                          \
    IN_OBJECT("empty_conditioning", "CONDITIONING",                                                \
              "An encoded empty prompt, from which the directions of the other two are seen.")
#define IN_NEG_SCALE()                                                                             \
    IN_FLOAT("neg_scale", 1.0, 0.0, 100.0, 0.01,                                                   \
             "How much the negative prompt counts beside the positive one; 0: not at all.")
#endif
