/* Guidance by three prompts: the formulas of engine.h's graft_third. Pure functions, any thread. */
#ifndef GRAFT_DENOISE_THIRD_H
#define GRAFT_DENOISE_THIRD_H
#include "engine/denoise/regions.h"

/* From the denoised latents of the three sides, n values each and `per` a picture, to the guided
 * one, which may be any of the three. */
void graft_third_guide(const graft_third *t, double cfg, float *const d[GRAFT_SIDES], size_t n,
                       size_t per, float *out);
#endif
