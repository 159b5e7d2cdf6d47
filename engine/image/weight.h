/* How much a place of a mask, a latent or an area counts: numbers from 0 to 1. Any thread. */
#ifndef GRAFT_IMAGE_WEIGHT_H
#define GRAFT_IMAGE_WEIGHT_H
#include <stdint.h>

/* Masks come from anywhere: what is outside is brought to the nearer end, and what is no number
 * counts nothing. */
static inline float graft_weight_clip(double v)
{
    return v > 0 ? v < 1 ? (float)v : 1.0f : 0.0f;
}

/* Place i of `side`, of which the first `first` and the last `last` fade: the k-th of n from either
 * end, from 1, counts k / n. An end that does not fade has 0. */
static inline double graft_weight_fade(int64_t i, int64_t side, int64_t first, int64_t last)
{
    double w = 1;
    if (i < first) w *= (double)(i + 1) / (double)first;
    if (side - 1 - i < last) w *= (double)(side - i) / (double)last;
    return w;
}
#endif
