/* The language of the device kernels: what C and CUDA C++ have in common, and names for what only
 * a device has. nvcc compiles the kernels for devices; a test compiles the same sources with a C
 * compiler, where GRAFT_CUDA_EMULATOR names a header that plays the device on the host. */
#ifndef GRAFT_KERNELS_CUDA_DEVICE_H
#define GRAFT_KERNELS_CUDA_DEVICE_H
#include <stdint.h>

#if defined(__CUDACC__)
#include <cuda_fp16.h>

#define restrict __restrict__ /* of headers that are C's, too */

#define GRAFT_DEVICE static __device__ __forceinline__
/* The body stands behind it and begins when all kernels before this one have ended. */
#define GRAFT_KERNEL(name, threads, params) GRAFT_KERNEL_(name, params, threads)
/* One with so few registers that a processor has room for `blocks` of it, and no fewer than that
 * leaves. */
#define GRAFT_KERNEL_BLOCKS(name, threads, blocks, params)                                         \
    GRAFT_KERNEL_(name, params, threads, blocks)
#define GRAFT_KERNEL_(name, params, ...)                                                           \
    GRAFT_KERNEL_THEN(graft_grid_next(), name, params, __VA_ARGS__)
/* One behind which nothing starts early: what a library launches so may not wait for it. */
#define GRAFT_KERNEL_LAST(name, threads, params) GRAFT_KERNEL_THEN((void)0, name, params, threads)
#define GRAFT_KERNEL_THEN(then, name, params, ...)                                                 \
    GRAFT_DEVICE void name##_body(const params p);                                                 \
    extern "C" __global__ void __launch_bounds__(__VA_ARGS__) name(const params p)                 \
    {                                                                                              \
        graft_grid_wait();                                                                         \
        then;                                                                                      \
        name##_body(p);                                                                            \
    }                                                                                              \
    GRAFT_DEVICE void name##_body(const params p)
#define GRAFT_SHARED            __shared__
#define GRAFT_THREAD            ((uint32_t)threadIdx.x)
#define GRAFT_BLOCK(d)          ((uint32_t)blockIdx.d)
#define GRAFT_UNROLL            _Pragma("unroll")
#define GRAFT_UNROLL_BY(n)      _Pragma(GRAFT_PRAGMA_TEXT(unroll n))
#define GRAFT_PRAGMA_TEXT(text) #text

/* From 9.0 on a kernel may be launched so that it starts before the one ahead of it in the stream
 * has ended (programmatic dependent launch, graft_cuda_launch()): as soon as each block of that one
 * has called graft_grid_next() or is done. So it must not touch memory of the device before
 * graft_grid_wait() is back, which says that the kernel ahead has ended and shows what it wrote.
 *
 * Every own kernel waits, in every thread, before it can return. Why that is enough: a wait covers
 * the one kernel ahead only. But that one, B, cannot have ended before its own threads were past
 * their wait, and so not before the kernel ahead of it, A, had ended, and so on to the first. If B
 * could return without a wait it could end before A, and C, which waits for B, would go on too
 * early. Copies, events and kernels launched without the attribute begin when all before them is
 * done, whatever was called there; a library's kernel launched with it has to wait as these do.
 *
 * next() comes behind wait(), so that one kernel at most is ahead of its turn: else a row of short
 * ones would lie in wait for each other on the processors. It takes effect when the last block has
 * called it; no block of the running kernel is without its place then, and the next kernel gets
 * what is left over. A start takes about as long as a block of our short kernels, so they call it
 * first thing. The price: blocks of the next kernel go to the processors that are free first, and
 * may lie on these more densely than if all had been free. */
GRAFT_DEVICE void graft_grid_wait(void)
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

GRAFT_DEVICE void graft_grid_next(void)
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

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

/* Two values rounded as by graft_f16_store() and graft_bf16_store(), the first one in the lower
 * half; what is no number is 0x7fff. */
GRAFT_DEVICE uint32_t graft_pair_f16(float a, float b)
{
    uint32_t u;
    asm("cvt.rn.f16x2.f32 %0,%1,%2;" : "=r"(u) : "f"(b), "f"(a));
    return u;
}

GRAFT_DEVICE uint32_t graft_pair_bf16(float a, float b)
{
    uint32_t u;
    asm("cvt.rn.bf16x2.f32 %0,%1,%2;" : "=r"(u) : "f"(b), "f"(a));
    return u;
}

/* 2^x and 1 / x, each in one instruction: off by some 2^-22 of their value, and what is below the
 * smallest normal number is 0. */
GRAFT_DEVICE float graft_exp2_near(float x)
{
    float y;
    asm("ex2.approx.ftz.f32 %0,%1;" : "=f"(y) : "f"(x));
    return y;
}

GRAFT_DEVICE float graft_inverse_near(float x)
{
    float y;
    asm("rcp.approx.ftz.f32 %0,%1;" : "=f"(y) : "f"(x));
    return y;
}

/* 1 / sqrt(x), off by at most two units in the last place. */
GRAFT_DEVICE float graft_inverse_sqrt(float x)
{
    return rsqrtf(x);
}

/* Products and sums that the compiler does not fuse. */
GRAFT_DEVICE double graft_times(double a, double b)
{
    return __dmul_rn(a, b);
}

GRAFT_DEVICE double graft_plus(double a, double b)
{
    return __dadd_rn(a, b);
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

/* The same for 16 x 32 by 32 x 8 of int8, exact int32 sums. a: (g, 4t), (g + 8, 4t), (g, 4t + 16),
 * (g + 8, 4t + 16) and the three to their right; b: (4t, g), (4t + 16, g) and the three below. */
GRAFT_DEVICE void graft_mma_s8(int32_t *d, const uint32_t *a, const uint32_t *b)
{
    asm volatile("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 "
                 "{%0,%1,%2,%3},{%4,%5,%6,%7},{%8,%9},{%0,%1,%2,%3};"
                 : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

/* FP8 on tensor cores: 8.9, and 12.0 on. Compilers turn the instruction into f16 for 9.0 and 10.0,
 * whose devices lack it; the code for 8.0 cannot have it. There kernels that use it are empty. */
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 890 && !defined(__CUDA_ARCH_FEAT_SM90_ALL)
#define GRAFT_FP8 1

/* The same as graft_mma_s8() of E4M3, sums in float32 of which not all bits need be kept. */
GRAFT_DEVICE void graft_mma_fp8(float *d, const uint32_t *a, const uint32_t *b)
{
    asm volatile("mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32 "
                 "{%0,%1,%2,%3},{%4,%5,%6,%7},{%8,%9},{%0,%1,%2,%3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
#else
#define GRAFT_FP8 0
#endif

/* Four 8 x 16 byte matrices from shared memory: lane l gives the address of row l % 8 of matrix
 * l / 8, and gets bytes 4 (l % 4) ... of row l / 4 of each. */
GRAFT_DEVICE void graft_load_matrices(uint32_t *to, const void *row)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3},[%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"((uint32_t)__cvta_generic_to_shared(row))
                 : "memory");
}

/* 16 bytes on their way to shared memory; zeros where `there` is 0. */
GRAFT_DEVICE void graft_async16(void *shared, const void *src, int there)
{
    asm volatile("cp.async.cg.shared.global [%0],[%1],16,%2;"
                 :
                 : "r"((uint32_t)__cvta_generic_to_shared(shared)), "l"(src), "r"(there ? 16 : 0)
                 : "memory");
}

/* What this thread sent since the last call is one group. */
GRAFT_DEVICE void graft_async_commit(void)
{
    asm volatile("cp.async.commit_group;" ::: "memory");
}

/* All this thread's groups but the last have arrived. */
GRAFT_DEVICE void graft_async_wait_1(void)
{
    asm volatile("cp.async.wait_group 1;" ::: "memory");
}
#else
#define GRAFT_FP8 1
#include GRAFT_CUDA_EMULATOR
#endif

/* 16 bytes that are loaded and stored at once. */
typedef struct __attribute__((aligned(16))) graft_vec {
    uint32_t u[4];
} graft_vec;

typedef struct __attribute__((aligned(8))) graft_vec2 {
    uint32_t u[2];
} graft_vec2;
#endif
