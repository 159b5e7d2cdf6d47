/* TAESD, the tiny autoencoder of Stable Diffusion (Ollin Boer Bohan,
 * https://github.com/madebyollin/taesd), in the units of vae.h: 3x3 convolutions and ReLUs, no
 * norm; but in the one for FLUX.2 (taef2) blocks at the latent begin with adding to what they see
 * two pointwise layers of it, a group norm and a ReLU between them.
 *
 * Its latents are those that the denoising network sees, scaled and shifted, and its pictures are
 * 0..1. Latents of Stable Diffusion 3 and FLUX.1 have 16 channels, those of FLUX.2 32 in each of
 * the cells that a place of theirs has (folding.h), normalized as the network sees them, the others
 * 4. The decoder begins with
 * 3 tanh(x / 3) of each number of the latent. That is no part of the graph: the caller computes it
 * (graft_taesd_clamp), so that it is exact in every precision. */
#ifndef GRAFT_MODELS_TAESD_H
#define GRAFT_MODELS_TAESD_H
#include "engine/models/parts/build.h"
#include "engine/models/vaes/vae_units.h"

/* n numbers of a latent in the network's scale, ready for the decoder. NaN stays. */
void graft_taesd_clamp(float *x, size_t n);

/* The layer of this number, as its author counts them: of the encoder's the stem is 0, of the
 * decoder's the clamp is 0, the first convolution 1, and an up-sampling has the number before its
 * convolution's. */
graft_name graft_taesd_layer(const graft_vae_arch *a, bool decoder, int32_t number);
/* What diffusers calls a tensor of the author's file of that half: "1.weight" of a decoder is
 * "decoder.layers.0.weight". False for what is no such name, and for results longer than `size`. */
bool graft_taesd_diffusers_name(bool decoder, const char *name, char *out, size_t size);

/* Appends the units of a half; false when there are too many. */
bool graft_taesd_units(const graft_vae_arch *a, bool decoder, graft_vae_half *h);
graft_vid graft_taesd_unit(const graft_build *b, const graft_vae_arch *a, bool decoder,
                           const graft_vae_unit *u, graft_vid x);
#endif
