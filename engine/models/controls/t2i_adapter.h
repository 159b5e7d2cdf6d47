/* T2I-Adapters (Mou et al. 2023, arXiv:2302.08453) as graphs: convolutions that see a picture and
 * give a feature for each level of a UNet's first half, which is added there. They do not see the
 * latent, so that a picture is computed once, not in every step.
 *
 * A picture's squares of `factor` pixels a side become places, their pixels channels
 * (PixelUnshuffle in PyTorch: colour by colour, of each row by row). Then for each feature, with
 * the one before halved first where it is of a smaller level:
 *
 *     full:  x = in_conv(x) where channels change; x += block2(relu(block1(x))), `blocks` times
 *     light: x = in_conv(x); the same, a quarter as wide; x = out_conv(x)
 *
 * A full one begins with conv_in. Halving takes the mean of 2x2 places; at an odd end, of those
 * that there are (ceil_mode in PyTorch), which gives the sizes that the UNet has there. In
 * diffusers these are FullAdapter, FullAdapterXL and LightAdapter. XL's halve once, before the
 * third feature: its places are twice as large at first. */
#ifndef GRAFT_MODELS_T2I_ADAPTER_H
#define GRAFT_MODELS_T2I_ADAPTER_H
#include "engine/models/parts/arch.h"
#include "engine/models/parts/build.h"

typedef struct graft_t2i_shape {
    int64_t rows, height, width; /* pictures, and places of each */
    graft_dtype act_dtype;
    int32_t more; /* 1: takes the features of other adapters, and adds its own */
} graft_t2i_shape;

/* Inputs: float32 (rows,height,width,colours * factor^2) of values in 0..1; strength (1) float32;
 * the features so far if `more`. Outputs: a->n features, times strength, of act_dtype. */
graft_status graft_t2i_build(const graft_t2i_arch *a, const graft_t2i_shape *shape,
                             graft_graph **out, graft_err *e);
/* Feature k's shape (rows,H,W,channels). */
void graft_t2i_feature_shape(const graft_t2i_arch *a, const graft_t2i_shape *shape, int k,
                             int64_t dim[4]);
/* Places along a side of so many cells of the latent, as many of which may stand over. */
int64_t graft_t2i_side(const graft_t2i_arch *a, int64_t cells);
/* GRAFT_E_ARG with the reason where its features are not those of the UNet's blocks
 * (graft_unet_places()). */
graft_status graft_t2i_fits(const graft_t2i_arch *a, const graft_unet_arch *unet, graft_err *e);
#endif
