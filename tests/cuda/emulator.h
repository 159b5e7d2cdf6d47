/* A CUDA device played on the host: one thread of the host runs the threads of a block in turns, as
 * coroutines that change at barriers. Makes the sources of the device kernels runnable, so that
 * their indices, their tiles and their use of tensor-core fragments are tested without a device.
 *
 * Blocks run one after the other; barriers are strict: all threads of a block (or of a warp) must
 * come to the same kind of barrier, or the process ends with a message. */
#ifndef GRAFT_TESTS_CUDA_EMULATOR_H
#define GRAFT_TESTS_CUDA_EMULATOR_H
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "base/half.h"

#define GRAFT_DEVICE static inline __attribute__((unused))
#define GRAFT_SHARED static
#define GRAFT_UNROLL
#define GRAFT_UNROLL_BY(n)
#define GRAFT_THREAD                                       emulator_thread()
#define GRAFT_BLOCK(d)                                     emulator_block_##d()
#define GRAFT_KERNEL(name, threads, params)                GRAFT_KERNEL_(name, params)
#define GRAFT_KERNEL_LAST(name, threads, params)           GRAFT_KERNEL_(name, params)
#define GRAFT_KERNEL_BLOCKS(name, threads, blocks, params) GRAFT_KERNEL_(name, params)
#define GRAFT_KERNEL_(name, params)                        EMULATED(emulator_begin(), name, params)
#define EMULATED(begins, name, params)                                                             \
    static void name##_body(const params p);                                                       \
    void name(const void *args);                                                                   \
    void name(const void *args)                                                                    \
    {                                                                                              \
        params p;                                                                                  \
        memcpy(&p, args, sizeof p);                                                                \
        begins;                                                                                    \
        name##_body(p);                                                                            \
    }                                                                                              \
    static void name##_body(const params p)

uint32_t emulator_thread(void);
uint32_t emulator_block_x(void);
uint32_t emulator_block_y(void);
uint32_t emulator_block_z(void);
void emulator_sync(void);
void emulator_sync_warp(void);
/* 128 threads that follow each other. */
void emulator_sync_group(void);
/* graft_grid_wait() and graft_grid_next() of device.h. A thread that ends without a wait, or lets
 * the next kernel start before it, ends the process. */
void emulator_grid_wait(void);
void emulator_grid_next(void);
/* Whether this thread has waited. */
bool emulator_waited(void);
/* Waits for what others do: comes back after they had their turns. */
void emulator_spin(void);
/* Shared memory of the size that the launch asked for. */
uint8_t *emulator_shared(void);
/* Ends the process. */
void emulator_fail(const char *what) __attribute__((noreturn));
float emulator_shuffle_xor(float v, int mask);
/* The fragments of graft_mma_*() in device.h; to_float: of one 16-bit value. */
void emulator_mma(float *d, const uint32_t *a, const uint32_t *b, float (*to_float)(uint16_t));
/* graft_mma_s8(), graft_mma_fp8(), graft_load_matrices() and the asynchronous copies of device.h. A
 * copy is done when it is waited for and no sooner, so that a missing wait shows. */
void emulator_mma_s8(int32_t *d, const uint32_t *a, const uint32_t *b);
void emulator_mma_fp8(float *d, const uint32_t *a, const uint32_t *b);
void emulator_load_matrices(uint32_t *to, const void *row);
void emulator_async16(void *to, const void *from, int there);
void emulator_async_commit(void);
void emulator_async_wait(uint32_t groups);
/* Runs a kernel over a grid of blocks of `threads` threads. Not reentrant: hold a lock. */
void emulator_launch(void (*kernel)(const void *), const void *args, const uint32_t grid[3],
                     uint32_t threads, uint32_t shared);
/* The next launch begins before what is ahead of it: `ahead`, which may launch a kernel, is called
 * when the first block can do nothing more without it. Not from within such a call. */
void emulator_begin_early(void (*ahead)(const void *), const void *args);

GRAFT_DEVICE void graft_grid_wait(void)
{
    emulator_grid_wait();
}

GRAFT_DEVICE void graft_grid_next(void)
{
    emulator_grid_next();
}

GRAFT_DEVICE void emulator_begin(void)
{
    emulator_grid_wait();
    emulator_grid_next();
}

GRAFT_DEVICE void graft_sync(void)
{
    emulator_sync();
}

GRAFT_DEVICE void graft_sync_warp(void)
{
    emulator_sync_warp();
}

GRAFT_DEVICE float graft_shuffle_xor(float v, int mask)
{
    return emulator_shuffle_xor(v, mask);
}

GRAFT_DEVICE float graft_f16_load(uint16_t h)
{
    return graft_f16_to_f32(h);
}

GRAFT_DEVICE uint16_t graft_f16_store(float f)
{
    return graft_f32_to_f16(f);
}

GRAFT_DEVICE uint32_t graft_pair_f16(float a, float b)
{
    return (uint32_t)graft_f32_to_f16(a) | (uint32_t)graft_f32_to_f16(b) << 16;
}

GRAFT_DEVICE uint32_t graft_pair_bf16(float a, float b)
{
    return (uint32_t)graft_f32_to_bf16(a) | (uint32_t)graft_f32_to_bf16(b) << 16;
}

GRAFT_DEVICE float graft_exp2_near(float x)
{
    return exp2f(x);
}

GRAFT_DEVICE float graft_inverse_near(float x)
{
    return 1.0f / x;
}

GRAFT_DEVICE float graft_inverse_sqrt(float x)
{
    return 1.0f / sqrtf(x);
}

GRAFT_DEVICE double graft_times(double a, double b)
{
    return a * b;
}

GRAFT_DEVICE double graft_plus(double a, double b)
{
    return a + b;
}

GRAFT_DEVICE float emulator_bf16(uint16_t h)
{
    return graft_bf16_to_f32(h);
}

GRAFT_DEVICE void graft_mma_bf16(float *d, const uint32_t *a, const uint32_t *b)
{
    emulator_mma(d, a, b, emulator_bf16);
}

GRAFT_DEVICE void graft_mma_f16(float *d, const uint32_t *a, const uint32_t *b)
{
    emulator_mma(d, a, b, graft_f16_to_f32);
}

GRAFT_DEVICE void graft_mma_s8(int32_t *d, const uint32_t *a, const uint32_t *b)
{
    emulator_mma_s8(d, a, b);
}

GRAFT_DEVICE void graft_mma_fp8(float *d, const uint32_t *a, const uint32_t *b)
{
    emulator_mma_fp8(d, a, b);
}

GRAFT_DEVICE void graft_load_matrices(uint32_t *to, const void *row)
{
    emulator_load_matrices(to, row);
}

GRAFT_DEVICE void graft_async16(void *shared, const void *src, int there)
{
    emulator_async16(shared, src, there);
}

GRAFT_DEVICE void graft_async_commit(void)
{
    emulator_async_commit();
}

GRAFT_DEVICE void graft_async_wait_1(void)
{
    emulator_async_wait(1);
}
#endif
