/* Operations on latents (engine/latents.h) in place, for one thread. */
#ifndef GRAFT_IMAGE_LATENT_OPERATION_H
#define GRAFT_IMAGE_LATENT_OPERATION_H
#include "engine/engine.h"

/* GRAFT_E_ARG for numbers out of their range. */
graft_status graft_latent_operation_check(const graft_latent_operation *o, graft_err *e);
/* The same, and where latents (N,C,h,w) are too small for a radius. *work: how many doubles
 * graft_latent_operation_run() needs. */
graft_status graft_latent_operation_fit(const graft_latent_operation *o, const int64_t shape[4],
                                        size_t *work, graft_err *e);
/* x: such latents. */
void graft_latent_operation_run(const graft_latent_operation *o, float *x, const int64_t shape[4],
                                double *work);
#endif
