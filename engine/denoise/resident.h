/* Sampling whose latents stay on a device: the guided denoiser and the sampler's sums work there,
 * the host only hands the work over, at most two steps ahead of the device. */
#ifndef GRAFT_DENOISE_RESIDENT_H
#define GRAFT_DENOISE_RESIDENT_H
#include "engine/denoise/guided.h"

typedef struct graft_resident graft_resident;

/* g is borrowed. *out NULL: this run is one for the host, since someone looks into arrays: the
 * sampler, an onlooker, DeepCache with a limit of its error, self-attention guidance. Or the
 * backend computes in the host's memory, or the device has too little. */
graft_status graft_resident_create(graft_guided *g, const char *sampler, graft_resident **out,
                                   graft_err *e);
/* Waits for what is under way. NULL is fine. */
void graft_resident_destroy(graft_resident *r);
graft_denoiser graft_resident_denoiser(graft_resident *r);
const graft_arrays *graft_resident_arrays(graft_resident *r);
/* The state, on the device: from x, and back into it. */
graft_status graft_resident_begin(graft_resident *r, const float *x, float **state, graft_err *e);
graft_status graft_resident_end(graft_resident *r, float *x, graft_err *e);
/* After a step: waits for the one before it, of which `done` is told, with its prediction where
 * `wanted`. After the last step of all: graft_resident_last(). */
typedef void graft_resident_done(void *ctx, size_t step, size_t total, const float *denoised);
void graft_resident_step(graft_resident *r, size_t step, size_t total, const float *denoised,
                         bool wanted, graft_resident_done *done, void *ctx);
void graft_resident_last(graft_resident *r, graft_resident_done *done, void *ctx);
#endif
