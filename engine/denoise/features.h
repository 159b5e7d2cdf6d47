/* DeepCache's memory of one sampling run: the deep features of its conditioning slots, and the
 * choice for each model call whether to reuse them. Belongs to one run, on one thread, and ends
 * with it, so that no run can see another's features. */
#ifndef GRAFT_DENOISE_FEATURES_H
#define GRAFT_DENOISE_FEATURES_H
#include "base/error.h"
#include "engine/sampling/deepcache.h"
#include "kernels/op_desc.h"

typedef struct graft_features graft_features;

/* steps: of the run. slots: places of conditioning entries, 0 … slots - 1. n: values of the state.
 */
graft_status graft_features_create(const graft_deepcache *d, size_t steps, size_t slots, size_t n,
                                   graft_features **out, graft_err *e);
void graft_features_destroy(graft_features *f);

/* The sampler begins this step (0-based). Samplers that evaluate the model several times in a step,
 * and ones that report no step before their first call, need nothing else. */
void graft_features_step(graft_features *f, size_t step);
/* A model call begins; x: n values, as the UNet gets them, not looked at without a limit of the
 * error. Decides for all slots. */
void graft_features_call(graft_features *f, const float *x);
/* This slot's part of the call takes the stored feature. False where there is none. */
bool graft_features_fast(const graft_features *f, size_t slot);
/* Whether the present call can be left out altogether, and no feature becomes older than the
 * schedule and the limit of the error have it. */
bool graft_features_spare(const graft_features *f);
/* Copies a fresh feature, `bytes` of `dtype`. */
graft_status graft_features_store(graft_features *f, size_t slot, graft_dtype dtype,
                                  const void *data, size_t bytes, graft_err *e);
const void *graft_features_get(const graft_features *f, size_t slot);
/* This slot has a fresh feature, which the caller keeps itself; only without a limit of the error.
 */
void graft_features_made(graft_features *f, size_t slot);
#endif
