/* ControlNets (Zhang et al. 2023, arXiv:2302.05543) as graphs: a copy of the UNet's first half that
 * sees a picture, the hint, and gives a residual for each place where the UNet's second half takes
 * something from the first. Those of transformers, whose hint is a latent, and which give residuals
 * for blocks, are in control_flux.h, control_mmdit.h, control_qwen_image.h and control_zimage.h;
 * those that run within a network in control_blockwise.h. */
#ifndef GRAFT_MODELS_CONTROLNET_H
#define GRAFT_MODELS_CONTROLNET_H
#include "engine/models/arch.h"
#include "engine/models/build.h"
#include "engine/models/unet.h"

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

/* Several of Z-Image's, whose residuals of the first part change what those of the second begin
 * with, run in two stages: first that part of all, then the rest of all. */
typedef enum graft_control_stage {
    GRAFT_CONTROL_AT_ONCE = 0,
    GRAFT_CONTROL_FIRST_PART = 1,
    GRAFT_CONTROL_SECOND_PART = 2
} graft_control_stage;

typedef struct graft_control_shape {
    int64_t batch, height, width, tokens; /* as the UNet's */
    int64_t pictures; /* rows after which x, timesteps and hint repeat, as graft_unet_build_guided
                         has it; the hint has only so many */
    graft_dtype act_dtype;
    int32_t more; /* takes the residuals of other ControlNets, and adds its own: 1; of a
                     transformer a bit for each part of `steered` that has some, and it has too */
    /* Of a transformer's only: */
    int32_t y_width, context_dim; /* as the network's */
    int32_t counts;             /* 1: the last number of y is how many tokens of the prompt count */
    int32_t told;               /* 1: it is a union ControlNet and told a type */
    int32_t stage;              /* graft_control_stage, of Z-Image's */
    graft_steered steered, own; /* how all of its chain steer, and how it alone does */
} graft_control_shape;

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

/* For builders of transformers': v (rows,…) of rank 3, repeated until it has n rows. */
graft_vid graft_control_wide(const graft_build *b, graft_vid v, int64_t n);
/* The residuals on their way out of a transformer's. */
typedef struct graft_control_residuals {
    const graft_build *b;
    const graft_control_shape *s;
    int64_t dim[4];
    graft_vid strength;
    graft_vid before[GRAFT_STEERED_MOST], made[GRAFT_STEERED_MOST]; /* of `steered` */
} graft_control_residuals;
/* Makes the input `strength`; blocks are `hidden` wide. */
void graft_control_residuals_init(graft_control_residuals *r, const graft_build *b,
                                  const graft_control_shape *s, int32_t hidden, int32_t patch);
/* Makes the inputs for `more`. */
void graft_control_residuals_before(graft_control_residuals *r);
/* Block i of a part gives its latent's tokens h (N,tokens,hidden), through a linear layer of this
 * name. */
void graft_control_residual(graft_control_residuals *r, int part, int i, graft_name name,
                            graft_vid h);
void graft_control_residuals_finish(graft_control_residuals *r); /* makes the outputs */
#endif
