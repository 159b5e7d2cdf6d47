/* Wan 2.1's VAE (arXiv:2503.20314; its code is public under Apache-2.0), which Qwen-Image has as
 * well, for single pictures. Its convolutions see a picture and the two before it: of a single one,
 * before which there is nothing, they see the last third of their kernels' weights alone. Norms see
 * one pixel each: the root mean square of its channels.
 *
 * Qwen-Image 2.1's (diffusers' code is public under Apache-2.0) is of the kind of Wan 2.2's, with
 * transparency and for pictures alone. Beside each level that changes the size goes a way without
 * weights: into the encoder means of squares of four pixels, out of the decoder each value four
 * times, or each of two values twice. Levels that change a video's length besides were made for two
 * pictures at once, of which there is only the last: its channels are every other one. */
#ifndef GRAFT_MODELS_WAN_VAE_H
#define GRAFT_MODELS_WAN_VAE_H
#include "engine/models/parts/build.h"
#include "engine/models/parts/latent_planes.h"
#include "engine/models/vaes/vae_units.h"

/* What the planes of their latents are normalized by where a network sees them, as their configs
 * say. */
#define GRAFT_WAN_PLANES          16
#define GRAFT_QWEN_IMAGE21_PLANES 64
extern const graft_latent_planes graft_wan_planes, graft_qwen_image21_planes;

/* graft_vae_half_of() of this kind; false: more units than there is room for. A level's first
 * convolutions get what the one before gives: of the decoder half as many channels as it has. */
bool graft_wan_vae_units(const graft_vae_arch *a, bool decoder, graft_vae_half *out);
/* What unit u makes of x. The names are those of the authors' files, in which layers of all levels
 * have one number (graft_wan_vae_number()), but of the residual kind one in their level. */
graft_vid graft_wan_vae_unit(const graft_build *b, const graft_vae_arch *a, bool decoder,
                             const graft_vae_unit *u, graft_vid x);
/* The number that residual block `block` of a level has in its half, or for `block` one more than
 * the last, what changes the size behind it. The decoder counts levels from the innermost on. */
int32_t graft_wan_vae_number(const graft_vae_arch *a, bool decoder, int32_t level, int32_t block);
#endif
