/* What a UNet's cross-attentions attend to beside the prompt: keys and values of pictures, which an
 * IP-Adapter makes (Ye et al. 2023, arXiv:2308.06721, eq. 5). With q, k and v as without,
 *
 *     attention(q, k, v) + attention(q, k', v') [+ attention(q, k'', v'') …]
 *
 * for one picture's k' and v' after the other, each as many tokens as it is. How much they count is
 * in the values, in which the result is linear; values of zeros leave the very same bits.
 *
 * Where a picture is masked, what its values add counts as much as the mask says at each place:
 * mask * attention(q, k', v').
 *
 * All of them are one input of the graph, a row of float32: picture by picture, of each its
 * cross-attentions in the order below, of each the keys (N,tokens,channels), then the values
 * likewise. The masks are another such row: masked picture by masked picture, of each the blocks
 * that have cross-attentions, in their order, of each (N,h,w) at the block's height and width. Pure
 * functions, any thread. */
#ifndef GRAFT_MODELS_ATTENDED_H
#define GRAFT_MODELS_ATTENDED_H
#include "engine/models/parts/arch.h"

/* Cross-attentions of a UNet: those of its input blocks, of its output blocks, then of the middle,
 * as adapters' files number them. */
#define GRAFT_CROSSINGS 256
typedef struct graft_crossings {
    int32_t n;
    int32_t channels[GRAFT_CROSSINGS];
} graft_crossings;

/* n is 0 where there are more of them than fit. */
void graft_crossings_of(const graft_unet_arch *a, graft_crossings *out);
/* The first one of input block i, output block i, or the middle. */
typedef enum graft_crossing_part {
    GRAFT_CROSSING_INPUT,
    GRAFT_CROSSING_OUTPUT,
    GRAFT_CROSSING_MIDDLE
} graft_crossing_part;
int32_t graft_crossings_first(const graft_unet_arch *a, graft_crossing_part part, int32_t i);
/* How many blocks with cross-attentions there are at most, and stand before this one. */
#define GRAFT_CROSSING_BLOCKS (2 * GRAFT_MAX_BLOCKS + 1)
int32_t graft_crossings_blocks(const graft_unet_arch *a, graft_crossing_part part, int32_t i);
/* Channels of all of them before number `until`. */
int64_t graft_crossings_before(const graft_crossings *c, int32_t until);

/* Pictures of a graph, or lists of such, each with its tokens; 0 tokens: there is none, and none
 * behind. */
#define GRAFT_ATTENDED 4
typedef struct graft_attended_shape {
    int32_t tokens[GRAFT_ATTENDED];
    uint32_t masked; /* a bit for each that has a mask */
} graft_attended_shape;
static inline int64_t graft_attended_tokens(const graft_attended_shape *s)
{
    int64_t n = 0;
    for (int i = 0; i < GRAFT_ATTENDED; i++) n += s->tokens[i];
    return n;
}
#endif
