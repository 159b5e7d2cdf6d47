/* Finding the tensors of a file that Graft quantized (quantized.h). */
#ifndef GRAFT_WEIGHTS_QUANTIZED_ADOPT_H
#define GRAFT_WEIGHTS_QUANTIZED_ADOPT_H
#include "engine/weights/safetensors.h"

/* Turns a file's quantized tensors into one tensor each: the weight's own shape, GRAFT_Q8,
 * GRAFT_QF8 or GRAFT_Q4, all bytes. GRAFT_E_FORMAT for what does not fit together,
 * GRAFT_E_UNSUPPORTED for other versions. Files without the metadata stay as they are. */
graft_status graft_quantized_adopt(const graft_safetensors *f, graft_st_tensor *tensor, size_t n,
                                   graft_err *e);
#endif
