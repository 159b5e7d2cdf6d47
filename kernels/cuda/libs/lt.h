/* Products by cuBLASLt. The algorithms that it proposes for a shape are kept on disk (keep.h), so
 * that a number among them means the same one in every process. */
#ifndef GRAFT_KERNELS_CUDA_LT_H
#define GRAFT_KERNELS_CUDA_LT_H
#include "kernels/cuda/device/device.h"

/* y(m,n) = x(m,k) w(n,k)^T [+ bias(n)] [+ residual(m,n)]; rows ld* elements apart, all of dtype.
 * wide: y is float32. by_rows: w is given as w(k,n). Both without bias and residual, and with a w
 * that begins at multiples of 16 bytes, where packed weights do at multiples of 256. */
typedef struct graft_cuda_gemm {
    graft_dtype dtype;
    /* What x and w are instead; each row of both has a scale. Compute capability 9.0 alone:
     * GRAFT_F8_E4M3 here, GRAFT_I8 in wgmma.h. */
    graft_dtype levels;
    int64_t m, n, k, ldx, ldw, ldo, ldr;
    bool bias, residual, wide, by_rows;
} graft_cuda_gemm;

enum { GRAFT_CUDA_LT_ALGORITHMS = 8 }; /* of which tuning chooses */

/* Loads the library and opens it for the current context; *out stays NULL on failure. */
graft_status graft_cuda_lt_open(graft_device *d, graft_cuda_lt **out, graft_err *e);
void graft_cuda_lt_close(graft_device *d, graft_cuda_lt *lt);
size_t graft_cuda_lt_version(const graft_cuda_lt *lt);
/* A plan with algorithm `index` of *count that the library proposes, best first; of levels, by
 * turns with fast ones, which leave sums in the tensor cores, where they have fewer bits than
 * float32 (CUBLASLT_MATMUL_DESC_FAST_ACCUM). The first is not of those. out NULL: only counts.
 * Fails when there is none. */
graft_status graft_cuda_lt_plan_create(graft_cuda_lt *lt, const graft_cuda_gemm *g, int32_t index,
                                       graft_cuda_lt_plan **out, int32_t *count);
void graft_cuda_lt_plan_destroy(graft_cuda_lt_plan *p);
bool graft_cuda_lt_fast(const graft_cuda_lt_plan *p);
uint64_t graft_cuda_lt_workspace(const graft_cuda_lt_plan *p);
/* Of a product of levels, before it is run: m scales of x and n of w. The device's lock is held. */
void graft_cuda_lt_scales(graft_cuda_lt_plan *p, const float *x, const float *w);
/* The device's lock is held. */
graft_status graft_cuda_lt_run(graft_device *d, graft_cuda_lt_plan *p, const void *x, const void *w,
                               const void *bias, const void *residual, void *y, void *workspace);
#endif
