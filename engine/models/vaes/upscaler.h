/* Networks that enlarge pictures, as graphs: RRDBNet (ESRGAN, Wang et al. 2018, arXiv:1809.00219;
 * Real-ESRGAN, Wang et al. 2021, arXiv:2107.10833) and Real-ESRGAN's compact SRVGGNet. */
#ifndef GRAFT_MODELS_UPSCALER_H
#define GRAFT_MODELS_UPSCALER_H
#include "engine/graph/graph.h"
#include "engine/models/parts/arch.h"

/* Pixels of the result for one of the picture, in each direction. */
static inline int64_t graft_upscaler_scale(const graft_upscaler_arch *a)
{
    return a->kind == GRAFT_UPSCALER_RRDB ? ((int64_t)1 << a->doublings) / a->unshuffle : a->factor;
}

/* Input: float32 (1,height,width,3) in 0..1, height and width multiples of a->unshuffle. Output:
 * float32 (1,height*scale,width*scale,3), about 0..1. */
graft_status graft_upscaler_build(const graft_upscaler_arch *a, int64_t height, int64_t width,
                                  graft_dtype act_dtype, graft_graph **out, graft_err *e);
#endif
