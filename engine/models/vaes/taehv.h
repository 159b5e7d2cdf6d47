/* TAEHV, TAESD's relative for the latents of videos (Ollin Boer Bohan,
 * https://github.com/madebyollin/taehv, MIT), in the units of vae.h, for single pictures of Wan
 * 2.1's latents (its files taew2_1 and lighttaew2_1): Qwen-Image, Krea 2 and Anima have these too.
 *
 * It works on pictures one behind the other. A block sees a picture's features and, as its memory,
 * those of the picture before, which are zeros before the first. Where the decoder doubles height
 * and width it may make two pictures of one, each by half of a pointwise layer (TGrow), and where
 * the encoder halves them it may make one of two (TPool). Of a latent that makes four, of which the
 * last is the picture: what it depends on is computed, and nothing else.
 *
 *     decoder, level     0 1 2                     3
 *     pictures           1 1 2, the last block: 1  1
 *     encoder, level     0 1                       2 3
 *     pictures           1 2, of two alike         1 1
 *
 * The encoder sees a picture as four alike. Two pictures are the channels of one value, the later
 * one first, as a block's first layer has them. A layer with a memory of zeros reads no weights of
 * it, and one that sees two alike the sum of its weights for both.
 *
 * Its pictures are 0..1, and taesd.h's clamp is what the decoder begins with. */
#ifndef GRAFT_MODELS_TAEHV_H
#define GRAFT_MODELS_TAEHV_H
#include "engine/models/parts/build.h"
#include "engine/models/vaes/vae_units.h"

#define GRAFT_TAEHV_LEVELS 4

/* Pictures that the decoder makes of one before this level, as they run, and of how many the
 * encoder makes one. */
static inline int32_t graft_taehv_grows(int32_t level)
{
    return level < 2 ? 1 : 2;
}
static inline int32_t graft_taehv_pools(int32_t level)
{
    return level < 3 ? 2 : 1;
}

/* Channels of a picture on a level of this half, as they run. */
static inline int32_t graft_taehv_width(const graft_vae_arch *a, bool decoder, int32_t level)
{
    return decoder ? a->channels[a->levels - 1 - level] : a->half[0].width;
}

/* Appends the units of a half; false when there are too many. */
bool graft_taehv_units(const graft_vae_arch *a, bool decoder, graft_vae_half *h);
/* What unit u makes of x. Layers have the numbers that their author gave them: of the decoder's the
 * clamp is 0 and the first convolution 1, and what is without weights counts, too. */
graft_vid graft_taehv_unit(const graft_build *b, const graft_vae_arch *a, bool decoder,
                           const graft_vae_unit *u, graft_vid x);
#endif
