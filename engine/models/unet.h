/* The UNet of Stable Diffusion 1.x, 2.x and XL (Rombach et al. 2022, arXiv:2112.10752; Podell et
 * al. 2023, arXiv:2307.01952) as a graph. */
#ifndef GRAFT_MODELS_UNET_H
#define GRAFT_MODELS_UNET_H
#include "engine/graph/graph.h"
#include "engine/models/arch.h"

typedef struct graft_unet_shape {
    int64_t batch, height, width; /* of the latent */
    int64_t tokens;               /* of the context */
    graft_dtype act_dtype;        /* of activations; inputs and output are float32 */
} graft_unet_shape;

/* Inputs: x (N,in,h,w), timesteps (N), context (N,tokens,context_dim), y (N,adm) if the model takes
 * one. Output: (N,out,h,w). */
graft_status graft_unet_build(const graft_unet_arch *a, const graft_unet_shape *shape,
                              graft_graph **out, graft_err *e);
#endif
