/* Finding the layers of a file that other programs quantized (coded.h, bitsandbytes.h). */
#ifndef GRAFT_WEIGHTS_CODED_ADOPT_H
#define GRAFT_WEIGHTS_CODED_ADOPT_H
#include "engine/weights/coded.h"
#include "engine/weights/safetensors.h"

/* Finds those that say so: their tensors get `coded`, the shape of what they hold
 * and no dtype; what belongs to them becomes parts. *out: what was found, which the tensors point
 * to, graft_free(); NULL where there is nothing.
 *
 * GRAFT_E_UNSUPPORTED for other formats; GRAFT_E_FORMAT for what does not fit together and for
 * scales of rows that are negative or not finite. Those of blocks are not looked at. */
graft_status graft_coded_adopt(const graft_safetensors *f, graft_st_tensor *tensor, size_t n,
                               graft_coded **out, graft_err *e);
#endif
