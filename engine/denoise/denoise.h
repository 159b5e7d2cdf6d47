/* The guided denoiser: a UNet with conditioning as the D(x, sigma) that samplers call.
 *
 * Guidance follows Ho and Salimans 2022 (arXiv:2207.12598): D = D_uncond + cfg (D_cond - D_uncond);
 * both halves run as one batch, a third one (third.h) with them. Preconditioning of x and of the
 * output is that of the prediction kind (eps, v: arXiv:2202.00512, x0, LCM: arXiv:2310.04378). */
#ifndef GRAFT_DENOISE_DENOISE_H
#define GRAFT_DENOISE_DENOISE_H
#include "engine/denoise/guided.h"

graft_denoiser graft_guided_denoiser(graft_guided *g);
/* x + noise at the start of a run (noise_scaling): noise (n values) becomes the state for sigma[0],
 * latent (UNet's space) added. */
void graft_guided_start(const graft_guided_config *c, float sigma, const float *latent,
                        float *noise);
#endif
