/* By what planes of latents are normalized where a network sees them: less their mean and divided
 * by their deviation. Plain data, any thread. */
#ifndef GRAFT_MODELS_LATENT_PLANES_H
#define GRAFT_MODELS_LATENT_PLANES_H
#include <stdint.h>

#define GRAFT_LATENT_PLANES_MOST 128
typedef struct graft_latent_planes {
    int32_t n; /* of a latent */
    float mean[GRAFT_LATENT_PLANES_MOST], deviation[GRAFT_LATENT_PLANES_MOST];
} graft_latent_planes;
#endif
