/* Sampling that someone looks on. */
#ifndef GRAFT_API_SAMPLE_H
#define GRAFT_API_SAMPLE_H
#include "engine/api/denoise.h"

/* graft_sample() for a model that waits for no calibration; tap may be NULL. */
graft_status graft_sample_tapped(const graft_model *m, const graft_sample_params *p,
                                 const graft_cond *positive, const graft_cond *negative,
                                 const graft_latent *latent, const graft_task *task,
                                 const graft_guided_tap *tap, graft_latent **out, graft_err *e);
#endif
