/* AutoencoderKL, the VAE of Stable Diffusion (Rombach et al. 2022, arXiv:2112.10752) as graphs, and
 * its small relatives (taesd.h, taehv.h) through the same functions.
 *
 * Each half of it, decoder and encoder, is a row of units with one tensor in and one out. A part is
 * a run of units that is compiled by itself: engine/pictures/strips.h runs parts over strips of a
 * picture that does not fit into memory as a whole. */
#ifndef GRAFT_MODELS_VAE_H
#define GRAFT_MODELS_VAE_H
#include "engine/graph/graph.h"
#include "engine/models/vaes/vae_units.h"

/* Input: latent (N,z,h,w), already divided by the scale factor. Output: (N,h*f,w*f,out_channels),
 * about -1..1. Of a TAESD what taesd.h says, of a TAEHV what taehv.h says. */
graft_status graft_vae_decoder_build(const graft_vae_arch *a, int64_t batch, int64_t height,
                                     int64_t width, graft_dtype act_dtype, graft_graph **out,
                                     graft_err *e);
/* Input: picture (N,h,w,in_channels), -1..1; h and w multiples of the factor. Output: moments
 * (N,2z,h/f,w/f): means, then log variances. */
graft_status graft_vae_encoder_build(const graft_vae_arch *a, int64_t batch, int64_t height,
                                     int64_t width, graft_dtype act_dtype, graft_graph **out,
                                     graft_err *e);

/* GRAFT_E_LIMIT when there are more than GRAFT_VAE_MAX_UNITS. */
graft_status graft_vae_half_of(const graft_vae_arch *a, bool decoder, graft_vae_half *out,
                               graft_err *e);
/* Plain data without padding: part of a compiled graph's key. */
typedef struct graft_vae_part {
    int64_t height, width; /* of the part's input, batch 1 */
    int32_t decoder;
    int32_t first, end; /* units first .. end - 1 */
    int32_t stop;       /* -1; or the output is what group norm `stop` of the part reads */
    int32_t given;      /* 1: statistics are an input, not the strip's own */
    graft_dtype act_dtype;
} graft_vae_part;
/* Inputs: 0: what the whole half takes when first is 0, else (1,h,w,channels) of act_dtype. 1, if
 * `given` and norms come before the output: float32 (norms,32,2), mean and variance of each group
 * of each. Output: what the half gives when it ends the half, else (1,h',w',channels) of act_dtype.
 * HEAD and TAIL take no given statistics and no stop. */
graft_status graft_vae_part_build(const graft_vae_arch *a, const graft_vae_part *part,
                                  graft_graph **out, graft_err *e);
#endif
