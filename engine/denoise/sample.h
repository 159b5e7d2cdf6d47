/* Sampling from the inside: sigmas of a model, and runs that someone looks on. */
#ifndef GRAFT_DENOISE_SAMPLE_H
#define GRAFT_DENOISE_SAMPLE_H
#include "engine/denoise/denoise.h"

/* All sigmas of the model, of which schedulers pick. */
void graft_model_sigma_table(const graft_model *m, graft_sigma_table *out);
/* The sigmas that graft_sample() runs through; none, or one, where it has nothing to do. */
graft_status graft_sigmas_for_ksampler(const graft_model *m, const graft_sample_params *p,
                                       graft_sigmas **out, graft_err *e);

/* graft_sample_custom() for a model that waits for no calibration, with `negative` given; tap may
 * be NULL. */
graft_status graft_sample_tapped(const graft_sampling *s, const graft_latent *latent,
                                 const graft_task *task, const graft_guided_tap *tap,
                                 graft_latent **out, graft_latent **denoised, graft_err *e);
#endif
