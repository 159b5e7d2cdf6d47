/* Applying a low-rank patch (LoRA, Hu et al. 2021, arXiv:2106.09685) to one tensor. */
#ifndef GRAFT_WEIGHTS_PATCH_H
#define GRAFT_WEIGHTS_PATCH_H
#include "engine/weights/weights.h"

/* n values of any floating-point dtype as float32. src need not be aligned. */
void graft_to_f32(graft_dtype dtype, const void *src, float *dst, size_t n);

/* dst += strength * scale * delta, where dst holds tensor `target` densely in float32 and delta is
 * up (O,r,…) times down (r,I,kh,kw), or up (O,r) x mid (r,r,kh,kw) x down (r,I) for LoCon's three
 * parts. GRAFT_E_FORMAT when the shapes do not fit the target's. */
graft_status graft_patch_apply(const graft_patch *p, const graft_st_tensor *target, float *dst,
                               graft_err *e);
#endif
