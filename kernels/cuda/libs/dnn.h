/* Convolutions and attention by cuDNN's graph interface.
 *
 * The plans of a shape are made once and kept, in memory and on disk (keep.h): some are compiled
 * when they are made, which takes up to seconds. All functions: any thread; plans of different
 * shapes are made at the same time. */
#ifndef GRAFT_KERNELS_CUDA_DNN_H
#define GRAFT_KERNELS_CUDA_DNN_H
#include "kernels/cuda/device/device.h"

/* Loads the library and opens it for the device; *out stays NULL on failure. */
graft_status graft_cuda_dnn_open(graft_device *d, graft_cuda_dnn **out, graft_err *e);
/* The same for a device that is only described, by the text of cuDNN's device properties: plans
 * can be made and looked at, not run. d lends host memory and its lock. */
graft_status graft_cuda_dnn_open_deviceless(graft_device *d, const char *properties,
                                            graft_cuda_dnn **out, graft_err *e);
void graft_cuda_dnn_close(graft_device *d, graft_cuda_dnn *dnn);
size_t graft_cuda_dnn_version(const graft_cuda_dnn *dnn);

/* Plan `index` of *count for the operator, best first; owned by `dnn`. out NULL: only counts.
 * Unsupported when there is none; an attention's second and third are compiled when they are first
 * asked for, and may turn out not to be there. A convolution's channel_add, act and upsample are
 * left out. */
graft_status graft_cuda_dnn_conv(graft_cuda_dnn *dnn, const graft_op_desc *op, int32_t index,
                                 graft_cuda_dnn_plan **out, int32_t *count, graft_err *e);
/* The same of levels, int8 or E4M3: x and w are dense levels, out the sums times w's and x's
 * scales, then the bias and the residual. LINEAR is a convolution of 1 x 1 over a picture one pixel
 * wide. */
graft_status graft_cuda_dnn_int8(graft_cuda_dnn *dnn, const graft_op_desc *op, int32_t index,
                                 graft_cuda_dnn_plan **out, int32_t *count, graft_err *e);
/* Whether it is asked for a plan of these levels at all, which takes no time to find out. */
bool graft_cuda_dnn_takes_levels(const graft_op_desc *op);
graft_status graft_cuda_dnn_attention(graft_cuda_dnn *dnn, const graft_op_desc *op, int32_t index,
                                      graft_cuda_dnn_plan **out, int32_t *count, graft_err *e);
uint64_t graft_cuda_dnn_workspace(const graft_cuda_dnn_plan *p);
/* "cudnn engine 41". */
void graft_cuda_dnn_name(const graft_cuda_dnn_plan *p, char *out, size_t n);
/* Whether the plan was compiled when it was made. */
bool graft_cuda_dnn_compiled(const graft_cuda_dnn_plan *p);
/* data: x, w, out, residual, bias of a convolution, and of levels float32 scales, one a channel of
 * the result and one a pixel of it; q, k, v, out of an attention, and as the
 * sixth how many keys count. The lock of the device is held.
 */
graft_status graft_cuda_dnn_run(graft_device *d, graft_cuda_dnn_plan *p, const void *const *data,
                                int n, void *workspace);
#endif
