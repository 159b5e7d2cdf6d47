/* Sampling from the inside: runs that someone looks on. */
#ifndef GRAFT_DENOISE_SAMPLE_H
#define GRAFT_DENOISE_SAMPLE_H
#include "engine/denoise/denoise.h"
#include "engine/denoise/model_sigmas.h"

/* graft_sample_custom() for a model that waits for no calibration, with `negative` given; tap may
 * be NULL. */
graft_status graft_sample_tapped(const graft_sampling *s, const graft_latent *latent,
                                 const graft_task *task, const graft_guided_tap *tap,
                                 graft_latent **out, graft_latent **denoised, graft_err *e);
#endif
