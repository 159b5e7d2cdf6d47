/* What unCLIP models (Ramesh et al. 2022, arXiv:2204.06125; Stable Diffusion 2.1 unCLIP) are told
 * of pictures: y, the first half of which is what CLIP made of them, with noise, the second how
 * much noise that was. */
#ifndef GRAFT_DENOISE_UNCLIP_H
#define GRAFT_DENOISE_UNCLIP_H
#include "engine/objects/objects.h"

/* Steps of the noise that pictures may have: 0 … GRAFT_UNCLIP_LEVELS - 1. */
#define GRAFT_UNCLIP_LEVELS 1000
/* Widest of CLIP's vectors. */
#define GRAFT_UNCLIP_WIDTH 2048
/* The share of noise that a sum of pictures gets, and by how much the seed of such noise is below
 * the sampler's. */
#define GRAFT_UNCLIP_MERGED 0.05
#define GRAFT_UNCLIP_SEED   10

/* GRAFT_E_ARG where a prompt's pictures come from an encoder of another width than the model is
 * for, and GRAFT_E_FORMAT for one whose file is damaged. Models that are no unCLIP do not look at
 * pictures. `c` may be NULL. */
graft_status graft_unclip_check(const graft_model *m, const graft_cond *c, graft_err *e);
/* y (adm_channels) of a prompt. A picture is
 *
 *     strength (mean + sqrt(a) (v - mean) + sqrt(1 - a) deviation noise, waves of the level)
 *
 * where v is CLIP's vector and a the share of signal at that level of a cosine schedule (Nichol and
 * Dhariwal 2021, arXiv:2102.09672, eq. 17). Mean and deviation of such vectors are in the model's
 * file; 0 and 1 where they are not. Several pictures add up, and their sum is such a vector again:
 * it gets noise of GRAFT_UNCLIP_MERGED, with strength 1. Noise is always what PyTorch's CPU
 * generator begins with for seed - GRAFT_UNCLIP_SEED, so a workflow's seed gives the picture that
 * it gives elsewhere. Zeros without pictures. */
void graft_unclip_fill(const graft_model *m, const graft_cond_entry *k, uint64_t seed, float *y);
#endif
