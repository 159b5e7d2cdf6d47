/* Masks of a sampling run: outside of one the state is the latent with its own noise, and the
 * result the latent. Differential diffusion (Levin and Fried 2023, arXiv:2306.00950) takes a mask's
 * grey for the moment from which on a place may change. */
#ifndef GRAFT_DENOISE_MASKED_H
#define GRAFT_DENOISE_MASKED_H
#include "engine/denoise/guided_config.h"

/* From which grey on a mask's places change at this sigma; 0 without differential diffusion. */
float graft_masked_threshold(const graft_guided_config *c, float sigma);
/* How much a place of the mask (0 … pictures * h * w - 1) lets the latent change then. */
float graft_masked_share(const graft_guided_config *c, int64_t place, float threshold);
/* By how much the latent is multiplied where it is kept, before noise comes to it. */
float graft_masked_kept(const graft_guided_config *c, float sigma);
/* x, a state of this sigma, as the network is to see it; and its prediction, both in place. */
void graft_masked_input(const graft_guided_config *c, float sigma, float threshold, float *x);
void graft_masked_output(const graft_guided_config *c, float threshold, float *out);
#endif
