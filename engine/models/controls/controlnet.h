/* ControlNets (Zhang et al. 2023, arXiv:2302.05543) as graphs: a copy of the UNet's first half that
 * sees a picture, the hint, and gives a residual for each place where the UNet's second half takes
 * something from the first. Those of transformers, whose hint is a latent, and which give residuals
 * for blocks, are in control_flux.h, control_mmdit.h, control_qwen_image.h and control_zimage.h;
 * those that run within a network in control_blockwise.h. */
#ifndef GRAFT_MODELS_CONTROLNET_H
#define GRAFT_MODELS_CONTROLNET_H
#include "engine/models/parts/arch.h"
#include "engine/models/parts/control_residuals.h"
#include "engine/models/parts/net_shape.h"

/* The latent is smaller than the hint by this factor: the hint's convolutions number 2, 4 and 6
 * halve it. */
#define GRAFT_CONTROL_FACTOR 8
#define GRAFT_CONTROL_MODES  32 /* types of pictures that a transformer's may know, at most */

/* The hint's features, which do not change from step to step. Inputs: float32 (N,8h,8w,3) in 0..1;
 * for a union ControlNet of a UNet the type's two (control_union.h). Of a transformer's: the latent
 * (N,hint_channels,h,w) in the scale that the network sees, and where there are more planes what
 * graft_control_sees_mask() and control_zimage.h say. Output: of act_dtype, of the first residual's
 * size. */
graft_status graft_control_hint_build(const graft_control_arch *a, int64_t batch, int64_t height,
                                      int64_t width, graft_dtype act_dtype, graft_graph **out,
                                      graft_err *e);

/* Inputs: x, timesteps, context, y if the UNet takes one, the hint's features, strength (1)
 * float32, for a union ControlNet the type's two, the residuals so far if `more`. Outputs: n_input
 * + 1 residuals as the UNet takes them, times strength.
 *
 * A transformer's: x without what is beside the latent, or where it has no table what
 * graft_mmdit_embed_build() makes of that; of the type the first alone, and only if it is told. The
 * residuals, in and out, are those of the parts in which it has blocks, in their order; for
 * Z-Image's see control_zimage.h. Of one that runs within the network it is a graph of its blocks,
 * for its weights' sake. */
graft_status graft_control_build(const graft_control_arch *a, const graft_control_shape *shape,
                                 graft_graph **out, graft_err *e);
/* GRAFT_E_ARG with the reason when it is not for this network. */
graft_status graft_control_fits(const graft_control_arch *a, const graft_net_arch *net,
                                graft_err *e);
/* Whether its hint is a latent, made by a VAE. */
static inline bool graft_control_sees_latent(const graft_control_arch *a)
{
    return a->kind != GRAFT_NET_UNET;
}
/* Planes of the latent that it sees. */
int32_t graft_control_channels(const graft_control_arch *a);
/* Whether it completes a picture (alimama-creative's FLUX.1-dev-Controlnet-Inpainting and
 * SD3-Controlnet-Inpainting 2024, InstantX's Qwen-Image-ControlNet-Inpainting 2025, the blockwise
 * one for inpainting): its hint is the latent of the picture, black where the mask is above a half,
 * and a plane behind it of 1 - mask, of each cell its first pixel. */
bool graft_control_sees_mask(const graft_control_arch *a);
/* How it steers the network, which it fits: zeros for a UNet, and for what runs within one. */
graft_steered graft_control_steers(const graft_control_arch *a, const graft_net_arch *net);
/* Whether each residual is for one block alone, and none of the blocks behind it: of all residuals
 * of the chain such a ControlNet takes and gives only those of its own blocks. */
static inline bool graft_control_sparse(const graft_control_arch *a)
{
    return a->kind == GRAFT_NET_ZIMAGE;
}
/* A shape of its own, of one small picture: for graphs of which only names and structure count. */
graft_control_shape graft_control_some_shape(const graft_control_arch *a);
#endif
