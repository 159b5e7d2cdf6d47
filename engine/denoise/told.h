/* What a network is told beside latent, time and prompt: the vector y. */
#ifndef GRAFT_DENOISE_TOLD_H
#define GRAFT_DENOISE_TOLD_H
#include "engine/denoise/guided.h"

/* y of one picture, graft_net_y_width() values; negative: on which side the prompt stands. */
void graft_guided_fill_y(const graft_guided *g, const graft_cond_entry *k, bool negative, float *y);
#endif
