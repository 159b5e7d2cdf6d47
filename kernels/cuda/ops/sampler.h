/* The arithmetic of samplers and what they fetch (kernel_abi.h). */
#ifndef GRAFT_KERNELS_CUDA_SAMPLER_H
#define GRAFT_KERNELS_CUDA_SAMPLER_H
#include "kernels/cuda/ops/op.h"

graft_status graft_cuda_copy(graft_device *d, void *dst, const void *src, uint64_t bytes);
graft_status graft_cuda_fill(graft_device *d, float *out, uint64_t n, float value);
graft_status graft_cuda_mix_arrays(graft_device *d, float *out, uint64_t n, uint32_t count,
                                   const double *factor, const float *const *in);
graft_status graft_cuda_guide(graft_device *d, const graft_guidance *g);
graft_status graft_cuda_fetch(graft_device *d, const void *src, uint64_t bytes, graft_fetch **out);
graft_status graft_cuda_fetched(graft_fetch *f, const void **data);
void graft_cuda_fetch_free(graft_fetch *f);
graft_status graft_cuda_send_ahead(graft_device *d, void *dst, const void *src, uint64_t bytes);
graft_status graft_cuda_blend_arrays(graft_device *d, const graft_blend *b);
graft_status graft_cuda_rescale_guidance(graft_device *d, const graft_rescale *r);
graft_status graft_cuda_cut(graft_device *d, const graft_excerpt *r);
graft_status graft_cuda_weigh(graft_device *d, const graft_excerpt *r);
graft_status graft_cuda_weighed_mean(graft_device *d, const graft_weighed *w);
graft_status graft_cuda_change(graft_device *d, const graft_change *c);
/* Frees the pinned memory that waits for use; the device is being closed. */
void graft_cuda_fetches_close(graft_device *d);
#endif
