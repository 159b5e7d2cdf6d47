/* Weights that other programs scaled to fit 8 bits: X.weight in F8_E4M3 or F8_E5M2, whose values
 * count times one number, X.scale_weight or X.weight_scale, as in ComfyUI's "fp8_scaled" files.
 * They are computed when they are loaded, as those of sums are. X.scale_input and X.input_scale,
 * for activations in 8 bits, and marks (scaled_fp8, X.comfy_quant) have no effect. */
#ifndef GRAFT_WEIGHTS_SCALED_H
#define GRAFT_WEIGHTS_SCALED_H
#include "engine/weights/safetensors.h"

#define GRAFT_SCALED_SUFFIX ".scale_weight"

/* Gives the file's scaled tensors their scales. Quantized ones (quantized.h) are adopted before.
 * GRAFT_E_UNSUPPORTED for a scale of another kind, one for each row for instance, and for weights
 * that are no floats; GRAFT_E_FORMAT for one that is 0 or not finite. */
graft_status graft_scaled_adopt(const graft_safetensors *f, graft_st_tensor *tensor, size_t n,
                                graft_err *e);
#endif
