/* What only Hopper has (compute capability 9.0): barriers in shared memory, tiles copied by the
 * tensor memory accelerator, and products of a warpgroup (128 threads). As in device.h, a header of
 * the emulator takes the place of this one on the host.
 *
 * Addresses of shared memory are numbers of 32 bits. Names of PTX instructions stand beside each
 * function; their order among each other is the caller's business, as there. */
#ifndef GRAFT_KERNELS_CUDA_HOPPER_H
#define GRAFT_KERNELS_CUDA_HOPPER_H
#include "kernels/cuda/gpu/device.h"
#include "kernels/cuda/gpu/params.h"

#if defined(__CUDACC__)
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
#define GRAFT_HOPPER 1
#else
#define GRAFT_HOPPER 0 /* the kernels are there, so that they are found, and empty */
#endif

/* One whose blocks have shared memory of a size that the launch gives, `per` of them a processor.
 * It calls graft_grid_wait() and graft_grid_next() itself. */
#define GRAFT_KERNEL_HOPPER(name, threads, per, params)                                            \
    extern "C" __global__ void __launch_bounds__(threads, per)                                     \
        name(const __grid_constant__ params p)
#define GRAFT_SHARED_BYTES(name) extern __shared__ __align__(1024) uint8_t name[]

GRAFT_DEVICE uint32_t graft_shared_address(const void *p)
{
    return (uint32_t)__cvta_generic_to_shared(p);
}

/* Ends the kernel with an error. */
GRAFT_DEVICE void graft_trap(void)
{
    __trap();
}

/* All threads of a warpgroup give registers back, or take some; n a multiple of 8 (setmaxnreg). */
#define graft_registers_fewer(n) asm volatile("setmaxnreg.dec.sync.aligned.u32 " GRAFT_TEXT(n) ";")
#define graft_registers_more(n)  asm volatile("setmaxnreg.inc.sync.aligned.u32 " GRAFT_TEXT(n) ";")
#define GRAFT_TEXT(n)            GRAFT_TEXT_(n)
#define GRAFT_TEXT_(n)           #n

/* ------------------------------------------------------------------ barriers (mbarrier)
 *
 * A phase ends when `count` threads have arrived and all bytes that were expected have come. */

GRAFT_DEVICE void graft_barrier_init(uint32_t barrier, uint32_t count)
{
    asm volatile("mbarrier.init.shared::cta.b64 [%0],%1;" ::"r"(barrier), "r"(count) : "memory");
}

/* Makes what init() wrote known to the copies; a block's barrier still has to follow. */
GRAFT_DEVICE void graft_barrier_init_fence(void)
{
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

GRAFT_DEVICE void graft_barrier_arrive(uint32_t barrier)
{
    asm volatile("mbarrier.arrive.shared::cta.b64 _,[%0];" ::"r"(barrier) : "memory");
}

GRAFT_DEVICE void graft_barrier_arrive_expect(uint32_t barrier, uint32_t bytes)
{
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _,[%0],%1;" ::"r"(barrier), "r"(bytes)
                 : "memory");
}

/* Whether the phase of this parity has ended (the phase before the first has parity 1). It may take
 * a while to say no: how long is the device's affair. */
GRAFT_DEVICE int graft_barrier_try(uint32_t barrier, uint32_t parity)
{
    uint32_t done;
    asm volatile("{.reg .pred p;mbarrier.try_wait.parity.shared::cta.b64 p,[%1],%2;"
                 "selp.u32 %0,1,0,p;}"
                 : "=r"(done)
                 : "r"(barrier), "r"(parity)
                 : "memory");
    return done != 0;
}

GRAFT_DEVICE uint64_t graft_nanoseconds(void)
{
    uint64_t now;
    asm volatile("mov.u64 %0,%globaltimer;" : "=l"(now));
    return now;
}

/* ------------------------------------------------------------------ tiles (cp.async.bulk.tensor)
 */

/* The map will be used soon (prefetch.tensormap). */
GRAFT_DEVICE void graft_map_prefetch(const graft_cuda_map *map)
{
    asm volatile("prefetch.tensormap [%0];" ::"l"((uint64_t)map) : "memory");
}

/* The map's box at column x, row y to shared memory; its bytes count at the barrier. */
GRAFT_DEVICE void graft_tile_load(uint32_t to, const graft_cuda_map *map, int32_t x, int32_t y,
                                  uint32_t barrier)
{
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
                 "[%0],[%1,{%3,%4}],[%2];" ::"r"(to),
                 "l"((uint64_t)map), "r"(barrier), "r"(x), "r"(y)
                 : "memory");
}

/* The same of a map of four dimensions, with the box's place in each. */
GRAFT_DEVICE void graft_tile_load_4(uint32_t to, const graft_cuda_map *map, int32_t x, int32_t y,
                                    int32_t z, int32_t w, uint32_t barrier)
{
    asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
                 "[%0],[%1,{%3,%4,%5,%6}],[%2];" ::"r"(to),
                 "l"((uint64_t)map), "r"(barrier), "r"(x), "r"(y), "r"(z), "r"(w)
                 : "memory");
}

/* ------------------------------------------------------------------ products (wgmma) */

/* Before the first product, and after other use of their registers. */
GRAFT_DEVICE void graft_wgmma_fence(void)
{
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}

/* The products since the last commit are one group. */
GRAFT_DEVICE void graft_wgmma_commit(void)
{
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}

/* Until all but the last, and until all groups are done: operands in shared memory were read then.
 * Sums may be looked at after the latter and graft_wgmma_settle(). */
GRAFT_DEVICE void graft_wgmma_wait_1(void)
{
    asm volatile("wgmma.wait_group.sync.aligned 1;" ::: "memory");
}

GRAFT_DEVICE void graft_wgmma_wait_0(void)
{
    asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
}

/* Keeps the compiler from taking a sum before it is there. */
GRAFT_DEVICE void graft_wgmma_settle(float *d)
{
    asm volatile("" : "+f"(*d)::"memory");
}

GRAFT_DEVICE void graft_wgmma_settle_s8(int32_t *d)
{
    asm volatile("" : "+r"(*d)::"memory");
}

/* What depends on it is not computed before here, to lie in registers until then. */
GRAFT_DEVICE void graft_compute_here(int32_t *v)
{
    asm volatile("" : "+r"(*v)::"memory");
}

/* v, which is not negative, is computed before the next wait: ptxas puts waits in front of whatever
 * does not need them to be over. */
GRAFT_DEVICE void graft_before_wait(float v)
{
    asm volatile("{.reg .pred p;setp.lt.f32 p,%0,0f00000000;@p nanosleep.u32 1;}" ::"f"(v)
                 : "memory");
}

/* d = a b^T, or d += a b^T when `add` is not 0: 64 x 16 by n x 16, both in shared memory by
 * descriptors, one warpgroup, float32 sums.
 * Lane l of warp w holds rows 16w + l/4 (+ 8): d[4j + 2h + i] is row + 8h, column 8j + 2(l%4) + i.
 */
#define GRAFT_SUMS4(c, i) c(d[i]), c(d[i + 1]), c(d[i + 2]), c(d[i + 3])
#define GRAFT_SUMS8(c, i) GRAFT_SUMS4(c, i), GRAFT_SUMS4(c, i + 4)
#define GRAFT_SUMS20(c)   GRAFT_SUMS8(c, 0), GRAFT_SUMS8(c, 8), GRAFT_SUMS4(c, 16)
#define GRAFT_SUMS24(c)   GRAFT_SUMS8(c, 0), GRAFT_SUMS8(c, 8), GRAFT_SUMS8(c, 16)
#define GRAFT_SUMS32(c)   GRAFT_SUMS24(c), GRAFT_SUMS8(c, 24)
#define GRAFT_SUMS40(c)   GRAFT_SUMS32(c), GRAFT_SUMS8(c, 32)
#define GRAFT_SUMS48(c)   GRAFT_SUMS40(c), GRAFT_SUMS8(c, 40)
#define GRAFT_SUMS64(c)   GRAFT_SUMS48(c), GRAFT_SUMS8(c, 48), GRAFT_SUMS8(c, 56)
#define GRAFT_SUMS80(c)   GRAFT_SUMS64(c), GRAFT_SUMS8(c, 64), GRAFT_SUMS8(c, 72)
#define GRAFT_SUMS20_TEXT                                                                          \
    "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,"                          \
    "%19}"
#define GRAFT_SUMS24_TEXT                                                                          \
    "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,"                          \
    "%19,%20,%21,%22,%23}"
#define GRAFT_SUMS32_TEXT                                                                          \
    "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,"                          \
    "%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31}"
#define GRAFT_SUMS40_TEXT                                                                          \
    "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,"                          \
    "%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31,%32,%33,%34,"                             \
    "%35,%36,%37,%38,%39}"
#define GRAFT_SUMS64_TEXT                                                                          \
    "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,"                          \
    "%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31,%32,%33,%34,"                             \
    "%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,%48,%49,%50,"                             \
    "%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63}"
#define GRAFT_SUMS80_TEXT                                                                          \
    "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,"                          \
    "%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31,%32,%33,%34,"                             \
    "%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,%48,%49,%50,"                             \
    "%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63,%64,%65,%66,"                             \
    "%67,%68,%69,%70,%71,%72,%73,%74,%75,%76,%77,%78,%79}"
#define GRAFT_WGMMA(n, type, sums, a_at, b_at, yes_at)                                             \
    GRAFT_DEVICE void graft_wgmma_mul_##n##_##type(float *d, uint64_t a, uint64_t b, int add)      \
    {                                                                                              \
        asm volatile("{.reg .pred p;setp.ne.b32 p,%" #yes_at ",0;"                                 \
                     "wgmma.mma_async.sync.aligned.m64n" #n "k16.f32." #type "." #type             \
                     " " GRAFT_SUMS##sums##_TEXT ",%" #a_at ",%" #b_at ",p,1,1,0,0;}"              \
                     : GRAFT_SUMS##sums("+f")                                                      \
                     : "l"(a), "l"(b), "r"(add));                                                  \
    }
GRAFT_WGMMA(48, bf16, 24, 24, 25, 26)
GRAFT_WGMMA(48, f16, 24, 24, 25, 26)
GRAFT_WGMMA(64, bf16, 32, 32, 33, 34)
GRAFT_WGMMA(64, f16, 32, 32, 33, 34)
GRAFT_WGMMA(128, bf16, 64, 64, 65, 66)
GRAFT_WGMMA(128, f16, 64, 64, 65, 66)
GRAFT_WGMMA(160, bf16, 80, 80, 81, 82)
GRAFT_WGMMA(160, f16, 80, 80, 81, 82)

/* The same of int8, 64 x 32 by n x 32, into sums of int32. */
#define GRAFT_WGMMA_S8(n, sums, a_at, b_at, yes_at)                                                \
    GRAFT_DEVICE void graft_wgmma_mul_##n##_s8(int32_t *d, uint64_t a, uint64_t b, int add)        \
    {                                                                                              \
        asm volatile("{.reg .pred p;setp.ne.b32 p,%" #yes_at ",0;"                                 \
                     "wgmma.mma_async.sync.aligned.m64n" #n "k32.s32.s8.s8"                        \
                     " " GRAFT_SUMS##sums##_TEXT ",%" #a_at ",%" #b_at ",p;}"                      \
                     : GRAFT_SUMS##sums("+r")                                                      \
                     : "l"(a), "l"(b), "r"(add));                                                  \
    }
GRAFT_WGMMA_S8(128, 64, 64, 65, 66)
GRAFT_WGMMA_S8(160, 80, 80, 81, 82)

/* d += a b: a is 64 x 16 in registers, which stay as they are until the product is done, b is
 * 16 x n in shared memory, row by row (graft_wgmma_rows). Lane l of warp w gives of row 16w + l/4
 * columns 2(l%4) and the next in a[0] and those 8 further on in a[2], and of row + 8 a[1], a[3]. */
#define GRAFT_WGMMA_ADD(n, type, sums, a0, a1, a2, a3, b_at, yes_at)                               \
    GRAFT_DEVICE void graft_wgmma_add_##n##_##type(float *d, const uint32_t *a, uint64_t b)        \
    {                                                                                              \
        asm volatile("{.reg .pred p;setp.ne.b32 p,%" #yes_at ",0;"                                 \
                     "wgmma.mma_async.sync.aligned.m64n" #n "k16.f32." #type "." #type             \
                     " " GRAFT_SUMS##sums##_TEXT ",{%" #a0 ",%" #a1 ",%" #a2 ",%" #a3 "},%" #b_at  \
                                                 ",p,1,1,1;}"                                      \
                     : GRAFT_SUMS##sums("+f")                                                      \
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(1));                \
    }
GRAFT_WGMMA_ADD(40, bf16, 20, 20, 21, 22, 23, 24, 25)
GRAFT_WGMMA_ADD(40, f16, 20, 20, 21, 22, 23, 24, 25)
GRAFT_WGMMA_ADD(64, bf16, 32, 32, 33, 34, 35, 36, 37)
GRAFT_WGMMA_ADD(64, f16, 32, 32, 33, 34, 35, 36, 37)
GRAFT_WGMMA_ADD(80, bf16, 40, 40, 41, 42, 43, 44, 45)
GRAFT_WGMMA_ADD(80, f16, 40, 40, 41, 42, 43, 44, 45)
GRAFT_WGMMA_ADD(128, bf16, 64, 64, 65, 66, 67, 68, 69)
GRAFT_WGMMA_ADD(128, f16, 64, 64, 65, 66, 67, 68, 69)
GRAFT_WGMMA_ADD(160, bf16, 80, 80, 81, 82, 83, 84, 85)
GRAFT_WGMMA_ADD(160, f16, 80, 80, 81, 82, 83, 84, 85)
#else
#define GRAFT_HOPPER 1
#include GRAFT_CUDA_EMULATOR_HOPPER
#endif

/* A turn may last milliseconds, and the clock is slow to read. */
#define GRAFT_BARRIER_TURNS 16

/* Waits until the phase of this parity has ended. 0 when it does not within `ms`, or little more: a
 * kernel that waits for ever would take the machine with it. */
GRAFT_DEVICE int graft_barrier_wait(uint32_t barrier, uint32_t parity, uint32_t ms)
{
    uint64_t start = 0;
    for (uint32_t turn = 0; !graft_barrier_try(barrier, parity); turn++) {
        if (turn % GRAFT_BARRIER_TURNS) continue;
        uint64_t now = graft_nanoseconds();
        if (turn == 0) start = now;
        if (now - start > ms * 1000000ull) return 0;
    }
    return 1;
}

/* Operands of wgmma whose rows of 64 values (128 bytes) lie one below the other with the 128-byte
 * swizzle, groups of eight rows 1024 bytes apart, as a tile's copy leaves them. 16 values further
 * along the rows: + 2. */
GRAFT_DEVICE uint64_t graft_wgmma_operand(uint32_t address)
{
    return (uint64_t)((address & 0x3ffff) >> 4) /* of the first row */
           | (uint64_t)1 << 16                  /* between columns of matrices: not used here */
           | (uint64_t)(1024 >> 4) << 32        /* between groups of eight rows */
           | (uint64_t)1 << 62;                 /* the swizzle */
}

/* The right operand of graft_wgmma_add_: rows of 16 values are columns of the matrix in memory,
 * whose rows of 64 values lie as above. Of wider ones the next 64 columns are `next` bytes further
 * on. 16 rows further down: + 128. */
GRAFT_DEVICE uint64_t graft_wgmma_rows(uint32_t address, uint32_t next)
{
    return (graft_wgmma_operand(address) & ~((uint64_t)0x3fff << 16)) | (uint64_t)(next >> 4) << 16;
}
#endif
