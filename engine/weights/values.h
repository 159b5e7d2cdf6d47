/* Values of a type that is known at run time only. Any thread. */
#ifndef GRAFT_WEIGHTS_VALUES_H
#define GRAFT_WEIGHTS_VALUES_H
#include <stddef.h>

#include "engine/weights/safetensors.h"

/* n values of any floating-point dtype as float32. src need not be aligned. */
void graft_to_f32(graft_dtype dtype, const void *src, float *dst, size_t n);
/* Values first .. first + n of a tensor of floats or blocks, not of a quantized one; its scale is
 * not counted. */
void graft_st_to_f32(const graft_st_tensor *t, int64_t first, int64_t n, float *dst);
/* All of them as float16, freed with graft_free(). GRAFT_E_UNSUPPORTED where it cannot hold one. */
graft_status graft_st_as_f16(const graft_st_tensor *t, uint16_t **out, graft_err *e);
#endif
