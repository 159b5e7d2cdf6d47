/* ControlNets (Zhang et al. 2023, arXiv:2302.05543) as graphs: a copy of the UNet's first half that
 * sees a picture, the hint, and gives a residual for each place where the UNet's second half takes
 * something from the first. */
#ifndef GRAFT_MODELS_CONTROLNET_H
#define GRAFT_MODELS_CONTROLNET_H
#include "engine/graph/graph.h"
#include "engine/models/arch.h"
#include "engine/models/unet.h"

/* The latent is smaller than the hint by this factor: the hint's convolutions number 2, 4 and 6
 * halve it. */
#define GRAFT_CONTROL_FACTOR 8

/* The hint's features, which do not change from step to step. Inputs: float32 (N,8h,8w,3) in 0..1;
 * for a union ControlNet the type's two (control_union.h). Output: (N,h,w,model_channels) of
 * act_dtype. */
graft_status graft_control_hint_build(const graft_control_arch *a, int64_t batch, int64_t height,
                                      int64_t width, graft_dtype act_dtype, graft_graph **out,
                                      graft_err *e);

typedef struct graft_control_shape {
    int64_t batch, height, width, tokens; /* as the UNet's */
    int64_t pictures; /* rows after which x, timesteps and hint repeat, as graft_unet_build_guided
                         has it; the hint has only so many */
    graft_dtype act_dtype;
    int32_t more; /* 1: takes the residuals of other ControlNets, and adds its own */
} graft_control_shape;

/* Inputs: x, timesteps, context, y if the UNet takes one, the hint's features, strength (1)
 * float32, the type's two for a union ControlNet, the residuals so far if `more`. Outputs: n_input
 * + 1 residuals as the UNet takes them, times strength. */
graft_status graft_control_build(const graft_control_arch *a, const graft_control_shape *shape,
                                 graft_graph **out, graft_err *e);
/* GRAFT_E_ARG with the reason when its residuals do not fit this UNet. */
graft_status graft_control_fits(const graft_control_arch *a, const graft_unet_arch *unet,
                                graft_err *e);
#endif
