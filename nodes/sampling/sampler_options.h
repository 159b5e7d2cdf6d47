/* What the nodes that give a sampler numbers have in common. */
#ifndef GRAFT_NODES_SAMPLER_OPTIONS_H
#define GRAFT_NODES_SAMPLER_OPTIONS_H
#include "nodes/node.h"

#define IN_ETA()                                                                                   \
    IN_FLOAT(                                                                                      \
        "eta", 1.0, 0.0, 100.0, 0.01,                                                              \
        "Share of the noise that each step takes away and adds anew: 1 is usual, 0 adds none, "    \
        "so that the same start always ends the same.",                                            \
        .flags = GRAFT_INPUT_EXACT)
#define IN_S_NOISE()                                                                               \
    IN_FLOAT("s_noise", 1.0, 0.0, 100.0, 0.01,                                                     \
             "Factor of the noise that is added; a little above 1 gives more detail, much more "   \
             "leaves noise.",                                                                      \
             .flags = GRAFT_INPUT_EXACT)
#define IN_NOISE_DEVICE()                                                                          \
    IN_CHOICE("noise_device", CHOICES("gpu", "cpu"),                                               \
              "Has no effect: the noise of a seed is the same on every device.")
#define OUT_SAMPLER()   OUT("SAMPLER", "SAMPLER", "The method, for a custom sampler.")
#define USUAL_NUMBERS() .given = true, .eta = 1, .s_noise = 1, .r = 0.5, .order = 4
#endif
