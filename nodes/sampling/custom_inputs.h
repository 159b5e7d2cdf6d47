/* What the two custom samplers have in common. */
#ifndef GRAFT_NODES_CUSTOM_INPUTS_H
#define GRAFT_NODES_CUSTOM_INPUTS_H
#include "nodes/node.h"

#define IN_SAMPLER() IN_OBJECT("sampler", "SAMPLER", "The method, from KSamplerSelect.")
#define IN_SIGMAS()                                                                                \
    IN_OBJECT("sigmas", "SIGMAS",                                                                  \
              "The steps, from a scheduler node. With fewer than two sigmas the latents "          \
              "stay as they are.")
#define IN_START()                                                                                 \
    IN_OBJECT("latent_image", "LATENT",                                                            \
              "Where to start: an empty latent, an encoded picture, or the result "                \
              "of another sampler.")
#define OUT_SAMPLED()                                                                              \
    OUT("output", "LATENT", "The latents after the last step, with the noise of the last sigma.")
#define OUT_DENOISED()                                                                             \
    OUT("denoised_output", "LATENT",                                                               \
        "The model's idea of the finished picture in the last step: without noise, even if the "   \
        "sigmas do not end at 0.")
#endif
