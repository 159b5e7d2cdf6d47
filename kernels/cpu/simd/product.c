/* LINEAR in float32 and in bfloat16. A tile is ROWS rows by two vectors of outputs, whose sums stay
 * in registers over all inputs; what becomes of them is computed while the products of the next
 * tile are under way. Weights come in words of four bytes: a float32, or two bfloat16, whose
 * products an instruction adds up where there is one. Elsewhere each half is a float32 but for its
 * place in the word, and rows are float32. */
#include "kernels/cpu/simd/tile.h"

#if HAS_PRODUCT

#define ROWS (REGISTERS == 32 ? GRAFT_CPU_PRODUCT_ROWS : 6) /* what registers hold */
#define FEW  (ROWS / 3)
/* Of a tile; each ends with a jump that nobody foresees. */
#define STEPS (REGISTERS == 32 ? 3 : 2)
_Static_assert(GRAFT_CPU_PRODUCT_ROWS % ROWS == 0, "rows that may be read");
#define LEVELS 0
#include "kernels/cpu/simd/product_finish.h"

/* What words are. */
typedef enum words { FLOATS, PAIRS, HALVES } words;

/* A macro, since compilers copy sums to and fro when the instruction is a function. */
#if GRAFT_ISA_LEVEL >= 3
#define DOT(sum, a, b, kind)                                                                       \
    do {                                                                                           \
        if ((kind) == PAIRS)                                                                       \
            __asm__("vdpbf16ps %2, %1, %0" : "+v"(sum) : "v"(a), "v"(b));                          \
        else                                                                                       \
            (sum) = (sum) + (a) * (b);                                                             \
    } while (0)
#elif GRAFT_ISA_LEVEL == 1
/* Told to choose instructions itself, a compiler keeps some of the sums in memory where halves of
 * words take two registers more. */
#define DOT(sum, a, b, kind)                                                                       \
    do {                                                                                           \
        if ((kind) == HALVES)                                                                      \
            __asm__("vfmadd231ps %2, %1, %0" : "+x"(sum) : "x"(a), "x"(b));                        \
        else                                                                                       \
            (sum) = (sum) + (a) * (b);                                                             \
    } while (0)
#else
#define DOT(sum, a, b, kind) ((sum) = (sum) + (a) * (b))
#endif

INLINE vf word(const float *p)
{
    float x; /* rows of bfloat16 may begin anywhere */
    memcpy(&x, p, sizeof x);
    return vf_set(x);
}

/* VL words of weights, or the first or second halves of them, which are read anew where there is no
 * register to keep a word in. */
#if GRAFT_ISA_LEVEL == 1
typedef vu any_words __attribute__((may_alias));
static const vu second_half = {0xffff0000u, 0xffff0000u, 0xffff0000u, 0xffff0000u,
                               0xffff0000u, 0xffff0000u, 0xffff0000u, 0xffff0000u};

INLINE vf weights(const float *p, words kind, int half)
{
    const any_words *w = (const any_words *)(const void *)p;
    vf b;
    if (kind != HALVES) return vf_load(p);
    if (half)
        __asm__("vmovaps %1, %0\n\tvandps %2, %0, %0" : "=&x"(b) : "m"(*w), "m"(second_half));
    else
        __asm__("vmovaps %1, %0\n\tvpslld $16, %0, %0" : "=&x"(b) : "m"(*w));
    return b;
}
#else
INLINE vf weights(const float *p, words kind, int half)
{
    vf w = vf_load(p);
    if (kind != HALVES) return w;
    return (vf)(half ? (vu)w & 0xffff0000u : (vu)w << 16);
}
#endif

/* The next streams of memory: weights of the next column, rows of the next block. */
typedef struct streams {
    stream w[2], rows;
} streams;

/* Adds the products of words, each of `half`, to sums. */
#define ADD_WORD(rows, kind, half)                                                                 \
    do {                                                                                           \
        vf b[2] = {weights(w, kind, half), weights(v, kind, half)};                                \
        _Pragma("GCC unroll 12") for (int r = 0; r < (rows); r++)                                  \
        {                                                                                          \
            vf a = word(x[r / 3] + r % 3 * s + ((kind) == HALVES ? 2 * i + (half) : i));           \
            DOT(sum[r][0], a, b[0], kind);                                                         \
            DOT(sum[r][1], a, b[1], kind);                                                         \
        }                                                                                          \
    } while (0)

/* Sums of up to `rows` rows to `now`; meanwhile `before`, if any, is finished. */
INLINE void tile(const graft_cpu_product *job, int rows, words kind, waiting *now,
                 const waiting *before, ending how, streams *soon)
{
    vf sum[ROWS][2];
    const float *x[ROWS / 3], *w = now->column->w[0], *v = now->column->w[1];
    bool whole = job->rows - now->row >= GRAFT_CPU_PRODUCT_ROWS - now->row % GRAFT_CPU_PRODUCT_ROWS;
    int64_t s = whole ? job->stride : job->rest_stride, i = 0;
    const float *from =
        whole ? job->x + now->row * s : job->rest + now->row % GRAFT_CPU_PRODUCT_ROWS * s;
#pragma GCC unroll 4
    for (int g = 0; g < ROWS / 3; g++) x[g] = from + (3 * g < rows ? 3 * g : 0) * s;
#pragma GCC unroll 12
    for (int r = 0; r < rows; r++) sum[r][0] = sum[r][1] = (vf){0};
#pragma GCC unroll 1
    for (int row = 0; row < ROWS; row += ROWS / STEPS) {
#pragma GCC unroll 1
        for (int64_t until = job->words * (row + ROWS / STEPS) / ROWS; i < until;
             i++, w += BLOCK, v += BLOCK) {
            ADD_WORD(rows, kind, 0);
            if (kind == HALVES) ADD_WORD(rows, kind, 1);
        }
        fetch(&soon->w[0]);
        fetch(&soon->w[1]);
        fetch(&soon->rows);
        for (int r = row; r < row + ROWS / STEPS; r++) {
            fetch_row(now, job, r);
            if (before) finish(before, job, r, how, kind == PAIRS);
        }
    }
#pragma GCC unroll 12
    for (int r = 0; r < rows; r++) {
        vf_store_halves(now->sum + r * 2 * VL, sum[r][0]);
        vf_store_halves(now->sum + (r * 2 + 1) * VL, sum[r][1]);
    }
}

/* `before` NULL: nothing to finish. */
INLINE void next_tile(const graft_cpu_product *job, int rows, words kind, waiting *now,
                      const waiting *before, ending how, streams *soon)
{
    if (!before)
        tile(job, rows, kind, now, NULL, PLAIN, soon);
    else if (how == PLAIN)
        tile(job, rows, kind, now, before, PLAIN, soon);
    else if (how == GEGLU)
        tile(job, rows, kind, now, before, GEGLU, soon);
    else
        tile(job, rows, kind, now, before, TANH, soon);
}

/* Results first ... end - 1 of all rows. */
INLINE void all_columns(const graft_cpu_product *job, int64_t first, int64_t end, words kind)
{
    ending how = ending_of(job);
    /* There are not registers enough for products and for what would go on beside them. */
    if (REGISTERS == 16 && how != PLAIN) how = GENERAL;
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
                finish_all(before, job, how, kind == PAIRS);
                before = NULL;
            }
            if (now->rows > FEW)
                next_tile(job, ROWS, kind, now, before, how, &soon);
            else
                next_tile(job, FEW, kind, now, before, how, &soon);
            before = now;
        }
    }
    if (before) finish_all(before, job, how, kind == PAIRS);
}

void SIMD(product)(const graft_cpu_product *job, int64_t first, int64_t panels)
{
    int64_t at = first * BLOCK, end = at + panels * BLOCK;
    if (job->dtype == GRAFT_BF16)
        all_columns(job, at, end, GRAFT_ISA_LEVEL >= 3 ? PAIRS : HALVES);
    else
        all_columns(job, at, end, FLOATS);
}
#endif
