/* Sigmas that depend on a model: schedulers over its table, by KSampler's numbers and others. What
 * else engine/sigmas.h says of them is defined here, too. Any thread. */
#ifndef GRAFT_DENOISE_MODEL_SIGMAS_H
#define GRAFT_DENOISE_MODEL_SIGMAS_H
#include "engine/objects/objects.h"
#include "engine/sampling/sampler.h"

/* All sigmas of the model, of which schedulers pick. */
void graft_model_sigma_table(const graft_model *m, graft_sigma_table *out);
/* The sigmas that graft_sample() runs through; none, or one, where it has nothing to do. */
graft_status graft_sigmas_for_ksampler(const graft_model *m, const graft_sample_params *p,
                                       graft_sigmas **out, graft_err *e);
#endif
