/* LINEAR in float32, and in bfloat16 where there are instructions for it. A tile is ROWS rows by
 * two vectors of outputs, whose sums stay in registers over all inputs; what becomes of them is
 * computed while the products of the next tile are under way. Inputs come in words of four bytes: a
 * float32, or two bfloat16 whose products an instruction adds up. */
#include "kernels/cpu/simd/tile.h"

#if HAS_PRODUCT

#define ROWS (REGISTERS == 32 ? GRAFT_CPU_PRODUCT_ROWS : 6) /* what registers hold */
#define FEW  (ROWS / 3)
/* Of a tile; each ends with a jump that nobody foresees. */
#define STEPS (REGISTERS == 32 ? 3 : 2)
_Static_assert(GRAFT_CPU_PRODUCT_ROWS % ROWS == 0, "rows that may be read");
#define LEVELS 0
#include "kernels/cpu/simd/product_finish.h"

/* A macro, since compilers copy sums to and fro when the instruction is a function. */
#if GRAFT_ISA_LEVEL >= 3
#define DOT(sum, a, b, pairs)                                                                      \
    do {                                                                                           \
        if (pairs)                                                                                 \
            __asm__("vdpbf16ps %2, %1, %0" : "+v"(sum) : "v"(a), "v"(b));                          \
        else                                                                                       \
            (sum) = (sum) + (a) * (b);                                                             \
    } while (0)
#else
#define DOT(sum, a, b, pairs) ((sum) = (sum) + (a) * (b))
#endif

INLINE vf word(const float *p)
{
    float x; /* rows of bfloat16 may begin anywhere */
    memcpy(&x, p, sizeof x);
    return vf_set(x);
}

/* The next streams of memory: weights of the next column, rows of the next block. */
typedef struct streams {
    stream w[2], rows;
} streams;

/* Sums of up to `rows` rows to `now`; meanwhile `before`, if any, is finished. */
INLINE void tile(const graft_cpu_product *job, int rows, bool pairs, waiting *now,
                 const waiting *before, ending how, streams *soon)
{
    vf sum[ROWS][2];
    const float *x[ROWS / 3], *w = now->column->w[0], *v = now->column->w[1];
    bool whole = job->rows - now->row >= GRAFT_CPU_PRODUCT_ROWS - now->row % GRAFT_CPU_PRODUCT_ROWS;
    int64_t s = whole ? job->stride : job->rest_stride, i = 0;
    const float *from =
        whole ? job->x + now->row * s : job->rest + now->row % GRAFT_CPU_PRODUCT_ROWS * s;
    (void)pairs; /* where there are no such instructions */
#pragma GCC unroll 4
    for (int g = 0; g < ROWS / 3; g++) x[g] = from + (3 * g < rows ? 3 * g : 0) * s;
#pragma GCC unroll 12
    for (int r = 0; r < rows; r++) sum[r][0] = sum[r][1] = (vf){0};
#pragma GCC unroll 1
    for (int row = 0; row < ROWS; row += ROWS / STEPS) {
#pragma GCC unroll 1
        for (int64_t until = job->words * (row + ROWS / STEPS) / ROWS; i < until;
             i++, w += BLOCK, v += BLOCK) {
            vf b[2] = {vf_load(w), vf_load(v)};
#pragma GCC unroll 12
            for (int r = 0; r < rows; r++) {
                vf a = word(x[r / 3] + r % 3 * s + i);
                DOT(sum[r][0], a, b[0], pairs);
                DOT(sum[r][1], a, b[1], pairs);
            }
        }
        fetch(&soon->w[0]);
        fetch(&soon->w[1]);
        fetch(&soon->rows);
        for (int r = row; r < row + ROWS / STEPS; r++) {
            fetch_row(now, job, r);
            if (before) finish(before, job, r, how, pairs);
        }
    }
#pragma GCC unroll 12
    for (int r = 0; r < rows; r++) {
        vf_store_halves(now->sum + r * 2 * VL, sum[r][0]);
        vf_store_halves(now->sum + (r * 2 + 1) * VL, sum[r][1]);
    }
}

/* `before` NULL: nothing to finish. */
INLINE void next_tile(const graft_cpu_product *job, int rows, bool pairs, waiting *now,
                      const waiting *before, ending how, streams *soon)
{
    if (!before)
        tile(job, rows, pairs, now, NULL, PLAIN, soon);
    else if (how == PLAIN)
        tile(job, rows, pairs, now, before, PLAIN, soon);
    else if (how == GEGLU)
        tile(job, rows, pairs, now, before, GEGLU, soon);
    else
        tile(job, rows, pairs, now, before, TANH, soon);
}

/* Results first ... end - 1 of all rows. */
INLINE void all_columns(const graft_cpu_product *job, int64_t first, int64_t end, bool pairs)
{
    ending how = ending_of(job);
    column both[2];
    waiting t[2];
    const waiting *before = NULL;
    int64_t steps = (job->rows + ROWS - 1) / ROWS * STEPS, bytes = job->words * BLOCK * 4;
    streams soon = {.rows = stream_of(job->ahead, job->ahead_bytes, steps * ((end - first) / VL))};
    int turn = 0, side = 0;
    for (int64_t at = first; at < end; side ^= 1) {
        column *own = &both[side];
        at = open_column(job, at, end, own);
        int64_t next = at < end ? at : first;
        soon.w[0] = stream_of(weights_of(job, next), bytes, steps);
        soon.w[1] = stream_of(weights_of(job, second_of(job, next, end)), bytes, steps);
        for (int64_t row = 0; row < job->rows; row += ROWS, turn ^= 1) {
            waiting *now = &t[turn];
            now->column = own;
            now->row = row;
            now->rows = job->rows - row < ROWS ? job->rows - row : ROWS;
            if (before && how == GENERAL) {
                finish_all(before, job, how, pairs);
                before = NULL;
            }
            if (now->rows > FEW)
                next_tile(job, ROWS, pairs, now, before, how, &soon);
            else
                next_tile(job, FEW, pairs, now, before, how, &soon);
            before = now;
        }
    }
    if (before) finish_all(before, job, how, pairs);
}

void SIMD(product)(const graft_cpu_product *job, int64_t first, int64_t panels)
{
    int64_t at = first * BLOCK, end = at + panels * BLOCK;
#if GRAFT_ISA_LEVEL >= 3
    if (job->dtype == GRAFT_BF16) {
        all_columns(job, at, end, true);
        return;
    }
#endif
    all_columns(job, at, end, false);
}
#endif
