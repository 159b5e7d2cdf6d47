/* The UNet of Stable Diffusion 1.x, 2.x and XL (Rombach et al. 2022, arXiv:2112.10752; Podell et
 * al. 2023, arXiv:2307.01952) as a graph. */
#ifndef GRAFT_MODELS_UNET_H
#define GRAFT_MODELS_UNET_H
#include "engine/graph/graph.h"
#include "engine/models/arch.h"

/* DeepCache (Ma et al. 2023, arXiv:2312.00858) cuts the UNet below input block `cut`: what enters
 * the output block that is joined with that block's skip connection is the deep feature. */
typedef enum graft_unet_variant {
    GRAFT_UNET_WHOLE = 0,
    GRAFT_UNET_STORE = 1, /* the whole UNet, and the feature as a second output */
    GRAFT_UNET_FAST = 2   /* input blocks 0 … cut, then the output blocks after the feature */
} graft_unet_variant;

/* HyperTile (hypertile.h): self-attention of a resolution level sees tiles of the picture, rows x
 * columns of them, all of one size. Both 0: the whole picture. */
#define GRAFT_UNET_GRIDS 8 /* levels that may have one */
typedef struct graft_unet_grid {
    int32_t rows, columns;
} graft_unet_grid;

typedef struct graft_unet_shape {
    int64_t batch, height, width; /* of the latent */
    int64_t tokens;               /* of the context */
    graft_dtype act_dtype;        /* of activations; inputs and output are float32 */
    int32_t variant, cut;         /* cut: 0 with WHOLE */
    int32_t control;              /* 1: takes the residuals of ControlNets */
    /* Of each level, 0 the outermost; rows and columns must divide its height and width. */
    graft_unet_grid grid[GRAFT_UNET_GRIDS];
} graft_unet_shape;

/* Inputs: x (N,in,h,w), timesteps (N), context (N,tokens,context_dim), y (N,adm) if the model takes
 * one, the feature if FAST, the residuals if control. Output: (N,out,h,w), the feature if STORE.
 * Feature and residuals are (N,H,W,C) of act_dtype. Residual i is added to what input block i gives
 * to the output blocks, the last to the middle block's output (controlnet.h); a FAST graph takes
 * those of its own input blocks only. */
graft_status graft_unet_build(const graft_unet_arch *a, const graft_unet_shape *shape,
                              graft_graph **out, graft_err *e);
/* The same where x and timesteps repeat after so many rows, as they do when one latent is denoised
 * with several conditionings: up to the first cross-attention all is computed once for all of them.
 * Only the first `pictures` rows of x are read then. A model with y gets nothing from it: y is each
 * row's own and goes into every block. */
graft_status graft_unet_build_guided(const graft_unet_arch *a, const graft_unet_shape *shape,
                                     int64_t pictures, graft_graph **out, graft_err *e);
/* The feature's shape, its batch included. */
void graft_unet_feature_shape(const graft_unet_arch *a, const graft_unet_shape *shape,
                              int64_t dim[4]);
/* How many residuals a graph of this shape takes: 0 without control, else at most n_input + 1. */
#define GRAFT_UNET_RESIDUALS (GRAFT_MAX_BLOCKS + 1)
int graft_unet_residuals(const graft_unet_arch *a, const graft_unet_shape *shape);
/* Residual i's shape, its batch included. */
void graft_unet_residual_shape(const graft_unet_arch *a, const graft_unet_shape *shape, int i,
                               int64_t dim[4]);
/* The cut for a block of a resolution level, both from 0 and the outermost; a down-sampling block
 * is the last of its level, the first convolution (cut 0) belongs to none. GRAFT_E_ARG states the
 * range. */
graft_status graft_unet_cut(const graft_unet_arch *a, int64_t level, int64_t block, int32_t *cut,
                            graft_err *e);
#endif
