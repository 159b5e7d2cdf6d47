/* What cuDNN asks of a driver while it compiles plans for a device that is only described: loading
 * the compiled code succeeds, everything else says that this is no real driver. */
#include <cuda.h>

#define EXPORT __attribute__((visibility("default")))

static int object; /* what every handle points to */

EXPORT CUresult cuLibraryLoadData(CUlibrary *library, const void *code, CUjit_option *options,
                                  void **values, unsigned n, CUlibraryOption *library_options,
                                  void **library_values, unsigned m)
{
    (void)code, (void)options, (void)values, (void)n, (void)library_options;
    (void)library_values, (void)m;
    *library = (CUlibrary)(void *)&object;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuLibraryUnload(CUlibrary library)
{
    (void)library;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuLibraryGetKernel(CUkernel *kernel, CUlibrary library, const char *name)
{
    (void)library, (void)name;
    *kernel = (CUkernel)(void *)&object;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuKernelSetAttribute(CUfunction_attribute a, int v, CUkernel k, CUdevice d)
{
    (void)a, (void)v, (void)k, (void)d;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuKernelGetAttribute(int *v, CUfunction_attribute a, CUkernel k, CUdevice d)
{
    (void)a, (void)k, (void)d;
    *v = 0;
    return CUDA_SUCCESS;
}

/* Looked up by name, never called without a device: their arguments do not matter. */
#define STUB(name)                                                                                 \
    EXPORT CUresult name##_stub(void) __asm__(#name);                                              \
    EXPORT CUresult name##_stub(void)                                                              \
    {                                                                                              \
        return CUDA_ERROR_STUB_LIBRARY;                                                            \
    }
STUB(cuInit)
STUB(cuDriverGetVersion)
STUB(cuDeviceGetCount)
STUB(cuDeviceGet)
STUB(cuDeviceGetAttribute)
STUB(cuGetErrorName)
STUB(cuGetErrorString)
STUB(cuModuleGetFunction)
STUB(cuModuleLoadData)
STUB(cuModuleLoadDataEx)
STUB(cuModuleUnload)
STUB(cuFuncGetAttribute)
STUB(cuFuncSetAttribute)
STUB(cuKernelGetFunction)
STUB(cuLibraryGetGlobal)
STUB(cuLibraryGetModule)
STUB(cuLaunchKernel)
STUB(cuMemcpyHtoDAsync)
STUB(cuTensorMapEncodeTiled)
STUB(cuTensorMapEncodeIm2col)
STUB(cuLibraryLoadFromFile)
STUB(cuOccupancyMaxPotentialClusterSize)
STUB(cuLaunchCooperativeKernel)
STUB(cuLaunchKernelEx)
STUB(cuCtxGetCurrent)
STUB(cuCtxGetLimit)
STUB(cuCtxPopCurrent)
STUB(cuCtxPushCurrent)
STUB(cuStreamGetCtx)
STUB(cuLinkCreate)
STUB(cuLinkAddData)
STUB(cuLinkComplete)
STUB(cuLinkDestroy)
