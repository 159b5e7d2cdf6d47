/* The emulator itself, where the tests of kernels rest on it: one product of a warpgroup whose
 * operands are laid out by hand, against plain sums; and that each way to use Hopper's instructions
 * wrongly, to start before the kernel ahead has ended, or to leave out a barrier between two
 * threads shows, as a wrong result or as an end with a message. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cuda.h>

#include "tests/cuda/hopper.h"
#include "tests/test.h"

CUresult cuTensorMapEncodeTiled(CUtensorMap *out, CUtensorMapDataType type, cuuint32_t rank,
                                void *base, const cuuint64_t *dim, const cuuint64_t *stride,
                                const cuuint32_t *box, const cuuint32_t *steps,
                                CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle,
                                CUtensorMapL2promotion l2, CUtensorMapFloatOOBfill fill);

enum { M = 64, N = 128, K = 64, THREADS = 160, X_BYTES = M * 128, BARRIERS = X_BYTES + N * 128 };

typedef enum mistake { /* what a kernel does wrong */
                       NONE,
                       NO_BARRIER,    /* does not wait for its tiles */
                       NO_WAIT,       /* looks at sums before they are there */
                       NO_FENCE,      /* products without a fence */
                       NO_INIT_FENCE, /* copies without the barrier's fence */
                       EARLY_RELEASE, /* a stage is filled again while it is read */
                       FEW_BYTES,     /* expects fewer bytes than come */
                       MANY_BYTES,    /* and more: waits for ever */
                       NO_SWIZZLE,    /* operands described as plain rows */
                       HALF_GROUP,    /* not all threads take part */
                       NO_GRID_WAIT,  /* fetches tiles that the kernel ahead may still write */
                       OUTSIDE        /* shared memory that is not there */
} mistake;

typedef struct params {
    graft_cuda_map x, w;
    float *out;
    const uint16_t *by_hand; /* shared memory as it shall be; NULL: by copies */
    int32_t mistake;
} params;

static uint64_t operand(uint32_t address, const params *p)
{
    uint64_t swizzle = p->mistake == NO_SWIZZLE ? 0 : 1;
    return (uint64_t)(address >> 4) | (uint64_t)64 << 32 | swizzle << 62;
}

static void wait_for(uint32_t barrier, uint32_t parity)
{
    while (!graft_barrier_try(barrier, parity)) {
    }
}

static void fetch(const params *p, int32_t column, uint32_t x_at, uint32_t full)
{
    uint32_t bytes = BARRIERS;
    if (p->mistake == FEW_BYTES) bytes -= 128;
    if (p->mistake == MANY_BYTES) bytes += 128;
    graft_barrier_arrive_expect(full, bytes);
    graft_tile_load(x_at, &p->x, column, 0, full);
    graft_tile_load(x_at + X_BYTES, &p->w, column, 0, full);
}

/* One warpgroup multiplies, a warp more fetches: once, or then something else into the same place.
 */
GRAFT_KERNEL_HOPPER(small_product, THREADS, 1, params)
{
    GRAFT_SHARED_BYTES(memory);
    uint32_t full = BARRIERS, tid = GRAFT_THREAD;
    float d[N / 2];
    if (tid == 0) {
        graft_barrier_init(full, 1);
        graft_barrier_init(full + 8, 4);
        if (p.mistake != NO_INIT_FENCE) graft_barrier_init_fence();
        if (p.by_hand) memcpy(memory, p.by_hand, BARRIERS);
    }
    graft_sync();
    if (p.mistake != NO_GRID_WAIT || tid < 128) graft_grid_wait();
    if (tid >= 128) {
        if (tid == 128 && !p.by_hand) fetch(&p, 0, p.mistake == OUTSIDE ? BARRIERS : 0, full);
        if (tid == 128 && p.mistake == EARLY_RELEASE) {
            wait_for(full + 8, 0);
            fetch(&p, K, 0, full);
        }
        return;
    }
    if (!p.by_hand && p.mistake != NO_BARRIER) wait_for(full, 0);
    if (p.mistake != NO_FENCE) graft_wgmma_fence();
    for (uint32_t k = 0; k < K / 16; k++)
        if (p.mistake != HALF_GROUP || tid < 96)
            graft_wgmma_mul_128_bf16(d, operand(k * 32, &p), operand(X_BYTES + k * 32, &p), k > 0);
    graft_wgmma_commit();
    if (p.mistake == EARLY_RELEASE && tid % 32 == 0) graft_barrier_arrive(full + 8);
    if (p.mistake == EARLY_RELEASE) wait_for(full, 1);
    if (p.mistake != NO_WAIT) graft_wgmma_wait_0();
    for (uint32_t i = 0; i < N / 2; i++)
        p.out[(tid / 32 * 16 + tid % 32 / 4 + i / 2 % 2 * 8) * N + i / 4 * 8 + tid % 4 * 2 +
              i % 2] = d[i];
    graft_wgmma_wait_0();
}

static uint16_t x[M * K], w[N * K], by_hand[BARRIERS / 2];
static float out[M * N];

static void fill(void)
{
    uint32_t seed = 5;
    for (int i = 0; i < (M + N) * K; i++) {
        seed = seed * 1664525u + 1013904223u;
        uint16_t v = graft_f32_to_bf16((float)(int)(seed >> 29) - 3);
        if (i < M * K)
            x[i] = v;
        else
            w[i - M * K] = v;
    }
    /* Pieces of 16 bytes (8 values): piece c of row r lies where piece c ^ (r % 8) would. */
    for (int r = 0; r < M + N; r++)
        for (int k = 0; k < K; k++) {
            int at = r * 64 + ((k / 8) ^ (r % 8)) * 8 + k % 8;
            by_hand[at] = r < M ? x[r * K + k] : w[(r - M) * K + k];
        }
}

static CUresult map_of(graft_cuda_map *map, uint16_t *base, uint64_t rows, uint64_t pitch)
{
    const cuuint64_t dim[2] = {K, rows}, stride[1] = {pitch};
    const cuuint32_t box[2] = {K, (cuuint32_t)rows}, steps[2] = {1, 1};
    return cuTensorMapEncodeTiled((CUtensorMap *)(void *)map, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 2,
                                  base, dim, stride, box, steps, CU_TENSOR_MAP_INTERLEAVE_NONE,
                                  CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_NONE,
                                  CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
}

/* Whether the result is right. */
static bool run(mistake m, bool hand)
{
    const uint32_t grid[3] = {1, 1, 1};
    params p = {.out = out, .by_hand = hand ? by_hand : NULL, .mistake = (int32_t)m};
    if (map_of(&p.x, x, M, K * 2) || map_of(&p.w, w, N, K * 2)) return false;
    for (int i = 0; i < M * N; i++) out[i] = -1;
    emulator_launch(small_product, &p, grid, THREADS, BARRIERS + 16);
    for (int i = 0; i < M * N; i++) {
        float sum = 0;
        for (int k = 0; k < K; k++)
            sum += graft_bf16_to_f32(x[i / N * K + k]) * graft_bf16_to_f32(w[i % N * K + k]);
        if (!(out[i] == sum)) return false;
    }
    return true;
}

static void layouts_are_those_of_the_device(void)
{
    CHECK(run(NONE, true));
    CHECK(run(NONE, false));
}

/* In a process of its own, since most of them end it. Every order of events has its turn. */
static void shows(bool (*right)(int mistake), int m)
{
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) {
        if (!freopen("/dev/null", "w", stderr)) _exit(3);
        bool all = true;
        for (int i = 0; i < 8; i++) all = right(m) && all;
        _exit(all ? 0 : 1);
    }
    int status = 0;
    CHECK(pid > 0 && waitpid(pid, &status, 0) == pid);
    CHECK(status != 0);
    if (status == 0) fprintf(stderr, "  mistake %d does not show\n", m);
}

static bool fetched(int m)
{
    return run((mistake)m, false);
}

static void mistakes_show(void)
{
    for (int m = NONE + 1; m <= OUTSIDE; m++) shows(fetched, m);
}

/* ------------------------------------------------------------------ kernels that start early */

enum { LINK = 64 };
typedef enum haste { /* what a kernel does wrong that starts before the one ahead has ended */
                     PATIENT,
                     NEVER_WAITS,
                     READS_FIRST,  /* and waits then */
                     WRITES_FIRST, /* into what the kernel ahead reads */
                     PARTLY_WAITS, /* some threads return without */
                     NEXT_FIRST    /* lets the next one start before it waited itself */
} haste;

typedef struct link {
    const float *from;
    float *to;
    int32_t haste;
} link_params;

GRAFT_KERNEL(first_link, LINK, link_params)
{
    p.to[GRAFT_THREAD] = p.from[(GRAFT_THREAD + 1) % LINK] + 1;
}

GRAFT_KERNEL_HOPPER(second_link, LINK, 1, link_params)
{
    uint32_t i = GRAFT_THREAD;
    float early = p.haste == READS_FIRST ? p.from[i] : 0;
    if (p.haste == WRITES_FIRST) p.to[i] = 0;
    if (p.haste == PARTLY_WAITS && i >= LINK / 2) return;
    if (p.haste == NEXT_FIRST) graft_grid_next();
    if (p.haste != NEVER_WAITS) graft_grid_wait();
    graft_grid_next();
    p.to[i] = (p.haste == READS_FIRST ? early : p.from[i]) + 1;
}

static void launch_first(const void *args)
{
    const uint32_t grid[3] = {1, 1, 1};
    emulator_launch(first_link, args, grid, LINK, 0);
}

/* There and back, the second before the first has ended. */
static bool chained(int m)
{
    const uint32_t grid[3] = {1, 1, 1};
    float a[LINK], b[LINK] = {0};
    for (int i = 0; i < LINK; i++) a[i] = (float)i;
    link_params first = {.from = a, .to = b}, second = {.from = b, .to = a, .haste = m};
    emulator_begin_early(launch_first, &first);
    emulator_launch(second_link, &second, grid, LINK, 0);
    for (int i = 0; i < LINK; i++)
        if (a[i] != (float)((i + 1) % LINK + 2)) return false;
    return true;
}

static void haste_shows(void)
{
    CHECK(chained(PATIENT));
    for (int m = PATIENT + 1; m <= NEXT_FIRST; m++) shows(chained, m);
}

/* ------------------------------------------------------------------ barriers that are missing */

enum { FIRST_LANE, LAST_LANE, FIRST_WARP, LAST_WARP, FIRST_BLOCK, LAST_BLOCK }; /* who writes */

typedef struct told {
    uint32_t *value, *seen; /* written by one thread, read by all */
    int32_t writer, barrier;
} told_params;

enum { TOLD = 64, TOLD_BLOCKS = 2 };

GRAFT_KERNEL(tell, TOLD, told_params)
{
    uint32_t i = GRAFT_THREAD, block = GRAFT_BLOCK(x);
    uint32_t who = p.writer == LAST_LANE ? 31 : p.writer == LAST_WARP ? TOLD - 1 : 0;
    if (block == (p.writer == LAST_BLOCK) && i == who) *p.value = 1;
    if (p.barrier) graft_sync();
    p.seen[block * TOLD + i] = *p.value;
}

/* Whether all threads that may know see what one has written: those of its warp, of its block, or
 * of the grid; twice, from either end. */
static bool told(int writer, bool barrier)
{
    const uint32_t grid[3] = {TOLD_BLOCKS, 1, 1};
    const uint32_t n = writer <= LAST_LANE ? 32 : writer <= LAST_WARP ? TOLD : TOLD_BLOCKS * TOLD;
    bool all = true;
    for (int turn = 0; turn < 2; turn++) {
        uint32_t value = 0, seen[TOLD_BLOCKS * TOLD] = {0};
        const told_params p = {&value, seen, writer, barrier};
        emulator_launch(tell, &p, grid, TOLD, 0);
        for (uint32_t i = 0; i < n; i++) all = all && seen[i];
    }
    return all;
}

static void missing_barriers_show(void)
{
    for (int writer = FIRST_LANE; writer <= LAST_WARP; writer++) {
        CHECK(told(writer, true));
        CHECK(!told(writer, false));
    }
    CHECK(!told(FIRST_BLOCK, true)); /* blocks have no barrier */
    CHECK(!told(LAST_BLOCK, true));
}

static void maps_are_checked(void)
{
    static graft_cuda_map map;
    CHECK_INT(map_of(&map, x, M, K * 2), CUDA_SUCCESS);
    CHECK_INT(map_of(&map, x + 1, M, K * 2), CUDA_ERROR_INVALID_VALUE); /* not aligned */
    CHECK_INT(map_of(&map, x, M, K * 2 + 2), CUDA_ERROR_INVALID_VALUE);
    CHECK_INT(map_of(&map, x, 0, K * 2), CUDA_ERROR_INVALID_VALUE);
    CHECK_INT(map_of(&map, x, 257, K * 2), CUDA_ERROR_INVALID_VALUE); /* too large a box */
}

int main(void)
{
    fill();
    RUN(layouts_are_those_of_the_device);
    RUN(mistakes_show);
    RUN(haste_shows);
    RUN(missing_barriers_show);
    RUN(maps_are_checked);
    return test_end();
}
