/* Tensors that LINEAR can multiply as they are packed (kernels/blocks.h): of a GGUF file, and
 * floats of 8 and 4 bits with the scales that they have, whoever made them (scaled.h, coded.h). Any
 * thread. */
#ifndef GRAFT_WEIGHTS_PACKED_H
#define GRAFT_WEIGHTS_PACKED_H
#include "engine/weights/st_tensor.h"

/* The type of its blocks; 0: it has none. */
int32_t graft_packed_type(const graft_st_tensor *t);
/* The type that a layer of it can have in memory: its own, or for integers that another program
 * made (coded.h), whose rows may be turned, Q8_0; 0: floats. */
int32_t graft_packed_as(const graft_st_tensor *t);
/* Its blocks, and where its type has them the scales of its rows, float32 at any alignment. */
void graft_packed_copy(const graft_st_tensor *t, uint8_t *blocks, uint8_t *scales);
#endif
