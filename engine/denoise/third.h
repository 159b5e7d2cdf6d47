/* Guidance by three prompts: the formulas of engine.h's graft_third. Pure functions, any thread. */
#ifndef GRAFT_DENOISE_THIRD_H
#define GRAFT_DENOISE_THIRD_H
#include "engine/denoise/change.h"
#include "engine/denoise/regions.h"

/* From the denoised latents of the three sides to the guided one, which may be any of the three;
 * what it lacks are sizes, and on a device room for sums. */
graft_change graft_third_change(const graft_third *t, double cfg, float *const d[GRAFT_SIDES],
                                float *out);
/* The same in the host's memory, n values each and `per` a picture. */
void graft_third_guide(const graft_third *t, double cfg, float *const d[GRAFT_SIDES], size_t n,
                       size_t per, float *out);
#endif
