/* Weights in 4 bits as bitsandbytes writes them (QuantState in its functional.py), and so diffusers
 * and transformers with load_in_4bit, and Forge. A tensor X, "….weight" mostly, lies as
 *
 *   X                    two codes a byte, the first in the high half, row by row without gaps; its
 *                        dtype and shape, (bytes, 1), say nothing
 *   X.quant_state.bitsandbytes__nf4, …__fp4
 *                        U8, a JSON object: "quant_type" nf4 or fp4, "shape", "blocksize", and with
 *                        nested scales "nested_blocksize" and "nested_offset"
 *   X.absmax             a scale for each "blocksize" values; blocks go on into the next row
 *   X.quant_map          what the 16 codes are worth: it has to be the known table
 *   X.nested_absmax, X.nested_quant_map
 *                        where scales are U8: what coded.h calls nested and map, F32
 *
 * A code's worth (kernels/float_blocks.h) counts times its block's scale, one product in float32.
 * bitsandbytes' kernels for CUDA compute the same and then round to the dtype of the layer's
 * inputs, as Graft does ahead of its products in 16 bits. */
#ifndef GRAFT_WEIGHTS_BITSANDBYTES_H
#define GRAFT_WEIGHTS_BITSANDBYTES_H
#include "engine/weights/coded.h"
#include "engine/weights/safetensors.h"

/* Whether a tensor is the quant_state of another. */
bool graft_bitsandbytes_is_mark(const graft_st_tensor *t);
/* graft_coded_adopt()'s for these files. `room`: one for each mark. */
graft_status graft_bitsandbytes_adopt(const graft_safetensors *f, graft_st_tensor *tensor, size_t n,
                                      graft_coded *room, graft_err *e);
#endif
