/* Comparison of noise, schedules and samplers with the tensors of a reference file. The names in
 * the file say what is compared, so any file of the same layout does. */
#ifndef GRAFT_TESTS_GOLDEN_SAMPLING_H
#define GRAFT_TESTS_GOLDEN_SAMPLING_H
#include "base/error.h"
#include "engine/weights/safetensors.h"

/* One case: `error` against `tolerance` (NaN never passes); 0: equal. */
typedef void golden_case_fn(void *ctx, const char *name, double error, double tolerance);

/* "seedS.AxBxCxD": largest absolute difference; tolerance 0 (bit for bit). */
graft_status golden_noise(const graft_safetensors *f, golden_case_fn *report, void *ctx,
                          graft_err *e);
/* "SCHEDULER.STEPS", "sigmas_table" and the timestep probes: largest relative difference; places
 * where the reference is no number are passed over. */
graft_status golden_schedules(const graft_safetensors *f, golden_case_fn *report, void *ctx,
                              graft_err *e);
/* "SAMPLER.SCHEDULER.STEPS.{sigmas,x0,out}" on D(x, s) = (x * a + b) / (1 + s^2) with plain noise
 * of seed 98: largest difference over the largest |out|. */
graft_status golden_samplers(const graft_safetensors *f, golden_case_fn *report, void *ctx,
                             graft_err *e);
#endif
