/* LINEAR by own kernels with Hopper's warpgroup products: bf16 and f16, and results in these of
 * products of int8, on compute capability 9.0 alone, and only where the device passed a test of
 * them when it was opened. */
#ifndef GRAFT_KERNELS_CUDA_WGMMA_H
#define GRAFT_KERNELS_CUDA_WGMMA_H
#include "kernels/cuda/libs/lt.h"
#include "kernels/cuda/ops/op.h"

/* Tiles of 128 x 160, 256 x 160 and 128 x 128, and the last one by turns. */
enum { GRAFT_CUDA_WGMMA_PLAIN = 3, GRAFT_CUDA_WGMMA_KERNELS = 4 };

/* Whether GRAFT_CUDA_WGMMA is that. */
bool graft_cuda_wgmma_asked(const char *how);
/* Small products with each kernel, held against the host's. Sets d->wgmma, or says in the log why
 * not; the device goes on without them. Nothing of this with GRAFT_CUDA_WGMMA=off. Those by turns,
 * d->wgmma_turns, have run on no device yet: they are tried with GRAFT_CUDA_WGMMA=all alone. */
void graft_cuda_wgmma_open(graft_device *d);
/* The same of levels, all of them: d->wgmma8. Nothing of this where d->wgmma is not set, and
 * likewise with GRAFT_CUDA_WGMMA=all alone. */
void graft_cuda_wgmma8_open(graft_device *d);
/* How many of the kernels can compute it, the first ones. Those of levels are others. */
int32_t graft_cuda_wgmma_count(const graft_device *d, const graft_cuda_gemm *g);
const char *graft_cuda_wgmma_name(int32_t kernel, bool levels);

typedef struct graft_cuda_wgmma_data {
    const void *x, *w, *bias, *residual; /* bias: of levels float32 */
    void *out;
    const float *row_scale, *column_scale; /* of levels */
} graft_cuda_wgmma_data;
/* act: of the result; GEGLU: pairs of columns fold into one, and ldo is that of the folded result.
 * All pointers at multiples of 16 bytes. The lock is held. */
graft_status graft_cuda_wgmma_run(graft_device *d, int32_t kernel, const graft_cuda_gemm *g,
                                  graft_act act, const graft_cuda_wgmma_data *data);
#endif
