/* What the tests of the CUDA library share: which file it is, and the fake driver under it. */
#ifndef GRAFT_TESTS_CUDA_BACKEND_H
#define GRAFT_TESTS_CUDA_BACKEND_H
#include <dlfcn.h>
#include <stdlib.h>

#include "kernels/kernel_abi.h"
#include "tests/cuda/fake_driver.h"

#define CUDA_LIBRARY GRAFT_LIB_DIR "/graft_kernels_cuda.so"

/* The library looks into this folder first. */
static inline void use_fake_driver(void)
{
    setenv("GRAFT_CUDA_LIBS", FAKE_DRIVER_DIR, 1);
    setenv("GRAFT_CUDA_DNN_INT8", "on", 1); /* what is off unless it is asked for */
}

static inline fake_cuda_state *fake_driver_state(void)
{
    void *h = dlopen(FAKE_DRIVER_DIR "/libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    return h ? (fake_cuda_state *)dlsym(h, "fake_cuda") : NULL;
}

/* A dense tensor of bfloat16. */
static inline graft_tensor_desc tensor_of(int rank, int64_t a, int64_t b, int64_t c, int64_t d)
{
    graft_tensor_desc t = {.dtype = GRAFT_BF16, .rank = rank, .dim = {a, b, c, d}};
    int64_t below = 1;
    for (int i = rank - 1; i >= 0; i--) {
        t.stride[i] = below;
        below *= t.dim[i];
    }
    return t;
}
#endif
