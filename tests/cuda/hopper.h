/* What only Hopper has, played on the host: the other side of kernels/cuda/gpu/hopper.h.
 *
 * Written from what PTX and the driver's interface say of barriers, tensor maps, swizzles,
 * descriptors and the places of sums, not from the kernels. Whatever may happen late happens as
 * late as it can, and what must not be looked at meanwhile holds NaN: a tile comes when nobody can
 * go on without it, in any order; a product is computed when it is waited for, and its sums are NaN
 * (of levels: 0x7fffffff) until all products into them are. What is not allowed, or waits for ever,
 * ends the process with a message. */
#ifndef GRAFT_TESTS_CUDA_HOPPER_H
#define GRAFT_TESTS_CUDA_HOPPER_H
#include "kernels/cuda/gpu/params.h"
#include "tests/cuda/emulator.h"

#define GRAFT_KERNEL_HOPPER(name, threads, per, params) EMULATED((void)0, name, params)
#define GRAFT_SHARED_BYTES(name)                        uint8_t *name = emulator_shared()

#define graft_registers_fewer(n) ((void)(n))
#define graft_registers_more(n)  ((void)(n))

uint32_t hopper_address(const void *p);
void hopper_barrier_init(uint32_t barrier, uint32_t count);
void hopper_barrier_init_fence(void);
void hopper_barrier_arrive(uint32_t barrier, uint32_t bytes);
/* 0 comes when others have gone on; where a test sets hopper_hurry, after the longest time that a
 * device might take. */
int hopper_barrier_try(uint32_t barrier, uint32_t parity);
/* The thread's: only what hopper_hurry made it wait for has passed. */
uint64_t hopper_nanoseconds(void);
/* at: the box's place, `rank` numbers. */
void hopper_tile_load(uint32_t to, const graft_cuda_map *map, const int32_t *at, uint32_t rank,
                      uint32_t barrier);
void hopper_wgmma_fence(void);
void hopper_wgmma(float *d, uint64_t a, uint64_t b, int add, int n, float (*to_float)(uint16_t));
/* Of levels. */
void hopper_wgmma_s8(int32_t *d, uint64_t a, uint64_t b, int add, int n);
/* With a in registers, which are looked at when the product is computed, and b row by row. */
void hopper_wgmma_add(float *d, const uint32_t *a, uint64_t b, int n, float (*to_float)(uint16_t));
void hopper_wgmma_commit(void);
void hopper_wgmma_wait(uint32_t groups);
/* Which one of two machines goes on. */
void hopper_use(int machine);
/* Of the emulator, around a block; bytes: of shared memory. */
void hopper_begin(uint8_t *shared, uint32_t bytes);
void hopper_end(void);
/* Everybody waits: one tile comes. false: there is none. */
bool hopper_deliver(void);
/* How often something happened that a waiting thread may have waited for. */
uint64_t hopper_events(void);

GRAFT_DEVICE uint32_t graft_shared_address(const void *p)
{
    return hopper_address(p);
}

GRAFT_DEVICE void graft_trap(void)
{
    emulator_fail("a kernel gave up");
}

GRAFT_DEVICE void graft_barrier_init(uint32_t barrier, uint32_t count)
{
    hopper_barrier_init(barrier, count);
}

GRAFT_DEVICE void graft_barrier_init_fence(void)
{
    hopper_barrier_init_fence();
}

GRAFT_DEVICE void graft_barrier_arrive(uint32_t barrier)
{
    hopper_barrier_arrive(barrier, 0);
}

GRAFT_DEVICE void graft_barrier_arrive_expect(uint32_t barrier, uint32_t bytes)
{
    hopper_barrier_arrive(barrier, bytes);
}

GRAFT_DEVICE int graft_barrier_try(uint32_t barrier, uint32_t parity)
{
    return hopper_barrier_try(barrier, parity);
}

GRAFT_DEVICE uint64_t graft_nanoseconds(void)
{
    return hopper_nanoseconds();
}

GRAFT_DEVICE void graft_map_prefetch(const graft_cuda_map *map)
{
    (void)map;
}

GRAFT_DEVICE void graft_tile_load(uint32_t to, const graft_cuda_map *map, int32_t x, int32_t y,
                                  uint32_t barrier)
{
    const int32_t at[] = {x, y};
    hopper_tile_load(to, map, at, 2, barrier);
}

GRAFT_DEVICE void graft_tile_load_4(uint32_t to, const graft_cuda_map *map, int32_t x, int32_t y,
                                    int32_t z, int32_t w, uint32_t barrier)
{
    const int32_t at[] = {x, y, z, w};
    hopper_tile_load(to, map, at, 4, barrier);
}

GRAFT_DEVICE void graft_wgmma_fence(void)
{
    hopper_wgmma_fence();
}

GRAFT_DEVICE void graft_wgmma_commit(void)
{
    hopper_wgmma_commit();
}

GRAFT_DEVICE void graft_wgmma_wait_1(void)
{
    hopper_wgmma_wait(1);
}

GRAFT_DEVICE void graft_wgmma_wait_0(void)
{
    hopper_wgmma_wait(0);
}

GRAFT_DEVICE void graft_wgmma_settle(float *d)
{
    (void)d;
}

GRAFT_DEVICE void graft_before_wait(float v)
{
    (void)v;
}

GRAFT_DEVICE void graft_wgmma_settle_s8(int32_t *d)
{
    (void)d;
}

GRAFT_DEVICE void graft_compute_here(int32_t *v)
{
    (void)v;
}

#define HOPPER_WGMMA(n, type, to_float)                                                            \
    GRAFT_DEVICE void graft_wgmma_mul_##n##_##type(float *d, uint64_t a, uint64_t b, int add)      \
    {                                                                                              \
        hopper_wgmma(d, a, b, add != 0, n, to_float);                                              \
    }
HOPPER_WGMMA(48, bf16, emulator_bf16)
HOPPER_WGMMA(48, f16, graft_f16_to_f32)
HOPPER_WGMMA(64, bf16, emulator_bf16)
HOPPER_WGMMA(64, f16, graft_f16_to_f32)
HOPPER_WGMMA(128, bf16, emulator_bf16)
HOPPER_WGMMA(128, f16, graft_f16_to_f32)
HOPPER_WGMMA(160, bf16, emulator_bf16)
HOPPER_WGMMA(160, f16, graft_f16_to_f32)

#define HOPPER_WGMMA_S8(n)                                                                         \
    GRAFT_DEVICE void graft_wgmma_mul_##n##_s8(int32_t *d, uint64_t a, uint64_t b, int add)        \
    {                                                                                              \
        hopper_wgmma_s8(d, a, b, add != 0, n);                                                     \
    }
HOPPER_WGMMA_S8(128)
HOPPER_WGMMA_S8(160)

#define HOPPER_WGMMA_ADD(n, type, to_float)                                                        \
    GRAFT_DEVICE void graft_wgmma_add_##n##_##type(float *d, const uint32_t *a, uint64_t b)        \
    {                                                                                              \
        hopper_wgmma_add(d, a, b, n, to_float);                                                    \
    }
HOPPER_WGMMA_ADD(40, bf16, emulator_bf16)
HOPPER_WGMMA_ADD(40, f16, graft_f16_to_f32)
HOPPER_WGMMA_ADD(64, bf16, emulator_bf16)
HOPPER_WGMMA_ADD(64, f16, graft_f16_to_f32)
HOPPER_WGMMA_ADD(80, bf16, emulator_bf16)
HOPPER_WGMMA_ADD(80, f16, graft_f16_to_f32)
HOPPER_WGMMA_ADD(128, bf16, emulator_bf16)
HOPPER_WGMMA_ADD(128, f16, graft_f16_to_f32)
HOPPER_WGMMA_ADD(160, bf16, emulator_bf16)
HOPPER_WGMMA_ADD(160, f16, graft_f16_to_f32)
#endif
