/* The device kernels, compiled for the emulator, and a table to find them by name. */
#define GRAFT_CUDA_EMULATOR        "tests/cuda/emulator.h"
#define GRAFT_CUDA_EMULATOR_HOPPER "tests/cuda/hopper.h"
#include "kernels/cuda/gpu/kernels.cu"

#include "tests/cuda/fake_driver.h"

const emulated_kernel emulated_kernels[] = {
#define GRAFT_CUDA_KERNEL(name, threads)         {#name, name},
#define GRAFT_CUDA_HOPPER(name, threads, shared) {#name, name},
#define GRAFT_CUDA_TYPED(name, threads)                                                            \
    {#name "_f32", name##_f32}, {#name "_f16", name##_f16}, {#name "_bf16", name##_bf16},
#include "kernels/cuda/gpu/kernels.def"
#undef GRAFT_CUDA_KERNEL
#undef GRAFT_CUDA_HOPPER
#undef GRAFT_CUDA_TYPED
    {NULL, NULL}};
