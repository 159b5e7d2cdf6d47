/* The functions of NVIDIA's driver that are used, in a table. */
#ifndef GRAFT_KERNELS_CUDA_DRIVER_H
#define GRAFT_KERNELS_CUDA_DRIVER_H
#include <cuda.h>
#include <stdbool.h>

#include "base/error.h"

/* cuda.h renames functions to their newest versions by macros; so do type and name here. */
#define GRAFT_CUDA_DRIVER(X)                                                                       \
    X(init, cuInit)                                                                                \
    X(version, cuDriverGetVersion)                                                                 \
    X(error_name, cuGetErrorName)                                                                  \
    X(error_text, cuGetErrorString)                                                                \
    X(device_count, cuDeviceGetCount)                                                              \
    X(device_get, cuDeviceGet)                                                                     \
    X(device_name, cuDeviceGetName)                                                                \
    X(device_attribute, cuDeviceGetAttribute)                                                      \
    X(context_retain, cuDevicePrimaryCtxRetain)                                                    \
    X(context_release, cuDevicePrimaryCtxRelease)                                                  \
    X(context_set, cuCtxSetCurrent)                                                                \
    X(memory_info, cuMemGetInfo)                                                                   \
    X(memory_alloc, cuMemAlloc)                                                                    \
    X(memory_free, cuMemFree)                                                                      \
    X(pinned_alloc, cuMemHostAlloc)                                                                \
    X(pinned_free, cuMemFreeHost)                                                                  \
    X(upload, cuMemcpyHtoDAsync)                                                                   \
    X(download, cuMemcpyDtoHAsync)                                                                 \
    X(copy, cuMemcpyDtoDAsync)                                                                     \
    X(stream_create, cuStreamCreate)                                                               \
    X(stream_destroy, cuStreamDestroy)                                                             \
    X(stream_wait, cuStreamSynchronize)                                                            \
    X(stream_follow, cuStreamWaitEvent)                                                            \
    X(event_create, cuEventCreate)                                                                 \
    X(event_destroy, cuEventDestroy)                                                               \
    X(event_record, cuEventRecord)                                                                 \
    X(event_wait, cuEventSynchronize)                                                              \
    X(event_elapsed, cuEventElapsedTime)                                                           \
    X(event_query, cuEventQuery)                                                                   \
    X(module_load, cuModuleLoadData)                                                               \
    X(module_unload, cuModuleUnload)                                                               \
    X(module_function, cuModuleGetFunction)                                                        \
    X(function_set, cuFuncSetAttribute)                                                            \
    X(launch, cuLaunchKernel)                                                                      \
    X(launch_with, cuLaunchKernelEx)                                                               \
    X(tensor_map, cuTensorMapEncodeTiled)                                                          \
    X(capture_begin, cuStreamBeginCapture)                                                         \
    X(capture_end, cuStreamEndCapture)                                                             \
    X(graph_instantiate, cuGraphInstantiateWithFlags)                                              \
    X(graph_destroy, cuGraphDestroy)                                                               \
    X(graph_nodes, cuGraphGetNodes)                                                                \
    X(exec_upload, cuGraphUpload)                                                                  \
    X(exec_destroy, cuGraphExecDestroy)                                                            \
    X(exec_launch, cuGraphLaunch)

typedef struct graft_cuda_driver {
#define GRAFT_CUDA_FIELD(field, function) __typeof__(&function) field;
    GRAFT_CUDA_DRIVER(GRAFT_CUDA_FIELD)
#undef GRAFT_CUDA_FIELD
    const char *path; /* of the file that they are from */
} graft_cuda_driver;

#define GRAFT_CUDA_CAPABILITY 80 /* the least compute capability, times 10 */

/* Loads the driver, starts it and sees that it has a device. */
graft_status graft_cuda_driver_open(graft_cuda_driver *out, graft_err *e);
/* The index'th device that is new enough; their number when `out` is NULL. */
graft_status graft_cuda_driver_device(const graft_cuda_driver *drv, int index, CUdevice *out,
                                      int *count, graft_err *e);
/* "CUDA_ERROR_UNKNOWN (unknown error)" into e, after `what`. GRAFT_E_NOMEM or GRAFT_E_DEVICE. */
graft_status graft_cuda_driver_fail(const graft_cuda_driver *drv, CUresult r, const char *what,
                                    graft_err *e);
#endif
