/* Values of a type that is known at run time only. Any thread. */
#ifndef GRAFT_WEIGHTS_VALUES_H
#define GRAFT_WEIGHTS_VALUES_H
#include <stdbool.h>
#include <stddef.h>

#include "kernels/op_desc.h"

/* n values of any floating-point dtype as float32. src need not be aligned. */
void graft_to_f32(graft_dtype dtype, const void *src, float *dst, size_t n);
/* Whether values of this type can be weights: floats, and what graft_is_quantized() says. */
bool graft_is_weight_type(graft_dtype t);
#endif
