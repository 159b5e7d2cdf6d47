/* The language of the device kernels: what C and CUDA C++ have in common, and names for what only
 * a device has. nvcc compiles the kernels for devices; a test compiles the same sources with a C
 * compiler, where GRAFT_CUDA_EMULATOR names a header that plays the device on the host. */
#ifndef GRAFT_KERNELS_CUDA_DEVICE_H
#define GRAFT_KERNELS_CUDA_DEVICE_H
#include <stdint.h>

#if defined(__CUDACC__)
#include <cuda_fp16.h>

#define GRAFT_DEVICE static __device__ __forceinline__
#define GRAFT_KERNEL(name, threads, params)                                                        \
    extern "C" __global__ void __launch_bounds__(threads) name(const params p)
#define GRAFT_SHARED   __shared__
#define GRAFT_THREAD   ((uint32_t)threadIdx.x)
#define GRAFT_BLOCK(d) ((uint32_t)blockIdx.d)
#define GRAFT_UNROLL   _Pragma("unroll")

GRAFT_DEVICE void graft_sync(void)
{
    __syncthreads();
}

GRAFT_DEVICE void graft_sync_warp(void)
{
    __syncwarp();
}

GRAFT_DEVICE float graft_shuffle_xor(float v, int mask)
{
    return __shfl_xor_sync(0xffffffffu, v, mask);
}

GRAFT_DEVICE float graft_f16_load(uint16_t h)
{
    return __half2float(__ushort_as_half(h));
}

GRAFT_DEVICE uint16_t graft_f16_store(float f)
{
    return __half_as_ushort(__float2half_rn(f));
}

/* d += a * b: 16 x 16 by 16 x 8, one warp, float32 sums. Lane l holds, with g = l / 4, t = l % 4:
 * a: (g, 2t), (g + 8, 2t), (g, 2t + 8), (g + 8, 2t + 8) and their right neighbours; b: (2t, g),
 * (2t + 8, g) and the ones below; d: (g, 2t), (g, 2t + 1), (g + 8, 2t), (g + 8, 2t + 1). */
GRAFT_DEVICE void graft_mma_bf16(float *d, const uint32_t *a, const uint32_t *b)
{
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
                 "{%0,%1,%2,%3},{%4,%5,%6,%7},{%8,%9},{%0,%1,%2,%3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

GRAFT_DEVICE void graft_mma_f16(float *d, const uint32_t *a, const uint32_t *b)
{
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
                 "{%0,%1,%2,%3},{%4,%5,%6,%7},{%8,%9},{%0,%1,%2,%3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
#else
#include GRAFT_CUDA_EMULATOR
#endif

/* 16 bytes that are loaded and stored at once. */
typedef struct __attribute__((aligned(16))) graft_vec {
    uint32_t u[4];
} graft_vec;
#endif
