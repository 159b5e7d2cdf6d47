/* Inputs that the schedulers without a model have. Their sigmas have more digits than their steps,
 * so editors must not round them. */
#ifndef GRAFT_NODES_SIGMA_INPUTS_H
#define GRAFT_NODES_SIGMA_INPUTS_H
#include "nodes/node.h"

#define IN_SIGMA_STEPS()                                                                           \
    IN_INT("steps", 20, 1, 10000, 0,                                                               \
           "How many steps the sampler takes. More take longer; most samplers need 20 to 30.")
#define IN_SIGMA_MAX()                                                                             \
    IN_FLOAT("sigma_max", 14.614642, 0.0, 5000.0, 0.01,                                            \
             "Noise before the first step. 14.614642 is what SD 1.x and SDXL were trained up to; " \
             "lower it to keep more of the picture that you begin with.",                          \
             .flags = GRAFT_INPUT_EXACT)
#define IN_SIGMA_MIN()                                                                             \
    IN_FLOAT("sigma_min", 0.0291675, 0.0, 5000.0, 0.01,                                            \
             "Noise before the last step, which takes away all that is left. 0.0291675 is the "    \
             "least that SD 1.x and SDXL know.",                                                   \
             .flags = GRAFT_INPUT_EXACT)
#define OUT_SIGMAS()                                                                               \
    OUT("SIGMAS", "SIGMAS", "The noise that is left before each step, and none at the end.")
#endif
