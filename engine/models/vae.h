/* AutoencoderKL, the VAE of Stable Diffusion (Rombach et al. 2022, arXiv:2112.10752) as graphs. */
#ifndef GRAFT_MODELS_VAE_H
#define GRAFT_MODELS_VAE_H
#include "engine/graph/graph.h"
#include "engine/models/arch.h"

/* How many latent pixels lie in a picture's: 2 for each level but one. */
static inline int64_t graft_vae_factor(const graft_vae_arch *a)
{
    return (int64_t)1 << (a->levels - 1);
}

/* Input: latent (N,z,h,w), already divided by the scale factor. Output: (N,h*f,w*f,out_channels),
 * about -1..1. */
graft_status graft_vae_decoder_build(const graft_vae_arch *a, int64_t batch, int64_t height,
                                     int64_t width, graft_dtype act_dtype, graft_graph **out,
                                     graft_err *e);
/* Input: picture (N,h,w,in_channels), -1..1; h and w multiples of the factor. Output: moments
 * (N,2z,h/f,w/f): means, then log variances. */
graft_status graft_vae_encoder_build(const graft_vae_arch *a, int64_t batch, int64_t height,
                                     int64_t width, graft_dtype act_dtype, graft_graph **out,
                                     graft_err *e);
#endif
