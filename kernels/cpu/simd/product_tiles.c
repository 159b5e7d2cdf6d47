/* LINEAR in bfloat16, and CONV2D in that and in levels, with AMX's matrix instructions: 32 rows by
 * two vectors of outputs, four registers of sums, 16 words of inputs a step. Packed weights lie as
 * the instructions read them: a row of a register is a word of sixteen outputs. Rows stay in the
 * second-level cache while some columns of outputs are multiplied, long ones part by part: their
 * sums wait in memory for the next part, which changes no bit of them. What becomes of a tile's
 * sums is computed while the products of the next tile are under way. */
#include "kernels/cpu/simd/matrix.h"

#define ROWS   GRAFT_CPU_PRODUCT_TILE_ROWS
#define LEVELS 1
#include "kernels/cpu/simd/product_finish.h"

#define HALF    16 /* rows of a register, outputs, and words of a step */
#define SUMS    (ROWS * 2 * VL)
#define COLUMNS GRAFT_CPU_PRODUCT_TILE_COLUMNS
_Static_assert(ROWS == 2 * HALF && BLOCK == HALF && VL == HALF, "registers");

/* Words of a row's taps that are multiplied at once, and the columns that they are multiplied with.
 */
typedef struct part {
    int64_t first, words;
    bool begins, ends;
    column *columns; /* COLUMNS at most */
    int n;
} part;

/* Sums: of the upper rows 0 and 1, of the lower ones 2 and 3. Inputs: 4 and 5. Weights: 6 and 7. */
INLINE void begin_sums(const float *sum, bool zero, bool both)
{
    if (zero) {
        _tile_zero(0);
        _tile_zero(1);
        _tile_zero(2);
        _tile_zero(3);
        return;
    }
    _tile_loadd(0, sum, 4 * 2 * VL);
    _tile_loadd(1, sum + VL, 4 * 2 * VL);
    if (!both) return;
    _tile_loadd(2, sum + HALF * 2 * VL, 4 * 2 * VL);
    _tile_loadd(3, sum + HALF * 2 * VL + VL, 4 * 2 * VL);
}

/* Registers have numbers that the compiler must know, so this is no function. */
#define MULTIPLY(levels, sum, x, w)                                                                \
    do {                                                                                           \
        if (levels)                                                                                \
            _tile_dpbssd(sum, x, w);                                                               \
        else                                                                                       \
            _tile_dpbf16ps(sum, x, w);                                                             \
    } while (0)

INLINE void step(const float *x, const float *w, const float *v, bool both, const bool levels)
{
    _tile_loadd(4, x, 4 * HALF);
    _tile_loadd(6, w, 4 * BLOCK);
    MULTIPLY(levels, 0, 4, 6);
    _tile_loadd(7, v, 4 * BLOCK);
    MULTIPLY(levels, 1, 4, 7);
    if (!both) return;
    _tile_loadd(5, x + HALF * HALF, 4 * HALF);
    MULTIPLY(levels, 2, 5, 6);
    MULTIPLY(levels, 3, 5, 7);
}

INLINE void keep_sums(float *sum, bool both)
{
    _tile_stored(0, sum, 4 * 2 * VL);
    _tile_stored(1, sum + VL, 4 * 2 * VL);
    if (!both) return;
    _tile_stored(2, sum + HALF * 2 * VL, 4 * 2 * VL);
    _tile_stored(3, sum + HALF * 2 * VL + VL, 4 * 2 * VL);
}

/* The part's sums of a tile, from `from` where they began before; meanwhile `before`, if any, is
 * finished. */
INLINE void tile(const graft_cpu_product *job, const part *p, waiting *now, const float *from,
                 float *to, const waiting *before, ending how, const bool levels, stream soon[2])
{
    const float *x = job->x + now->row / ROWS * job->tile + p->first / HALF * job->chunk;
    const float *w = now->column->w[0] + p->first * job->taps * BLOCK;
    const float *v = now->column->w[1] + p->first * job->taps * BLOCK;
    const int64_t steps = p->words / HALF * job->taps;
    const bool both = now->rows > HALF;
    int64_t r = 0, t = 0;
    begin_sums(from, p->begins, both);
#pragma GCC unroll 1
    for (int64_t i = 0; i < steps; i++) {
        step(x + job->tap[t], w + i * HALF * BLOCK, v + i * HALF * BLOCK, both, levels);
        if (++t == job->taps) t = 0, x += job->chunk;
        fetch(&soon[0]);
        fetch(&soon[1]);
        for (; r < ROWS * (i + 1) / steps; r++) {
            if (p->ends) fetch_row(now, job, r);
            if (before) finish(before, job, r, how, true);
        }
    }
    keep_sums(to, both);
}

/* `before` NULL: nothing to finish. */
INLINE void next_tile(const graft_cpu_product *job, const part *p, waiting *now, float *sums,
                      const waiting *before, ending how, stream soon[2])
{
    float *to = p->ends ? now->sum : sums;
    if (job->dtype == GRAFT_I8)
        tile(job, p, now, sums, to, before, PLAIN, true, soon);
    else if (!before)
        tile(job, p, now, sums, to, NULL, PLAIN, false, soon);
    else if (how == PLAIN)
        tile(job, p, now, sums, to, before, PLAIN, false, soon);
    else if (how == GEGLU)
        tile(job, p, now, sums, to, before, GEGLU, false, soon);
    else
        tile(job, p, now, sums, to, before, TANH, false, soon);
}

/* All rows of a part's columns. */
static void multiply(const graft_cpu_product *job, const part *p, ending how)
{
    const int64_t tiles = (job->rows + ROWS - 1) / ROWS, words = p->words * job->taps;
    const waiting *before = NULL;
    waiting t[2];
    int turn = 0;
    for (int c = 0; c < p->n; c++) {
        const column *next = &p->columns[c + 1 < p->n ? c + 1 : 0];
        stream soon[2];
        for (int v = 0; v < 2; v++)
            soon[v] = stream_of(next->w[v] + p->first * job->taps * BLOCK, words * BLOCK * 4,
                                tiles * (words / HALF));
        for (int64_t i = 0; i < tiles; i++, turn ^= 1) {
            waiting *now = &t[turn];
            now->column = &p->columns[c];
            now->row = i * ROWS;
            now->rows = job->rows - now->row < ROWS ? job->rows - now->row : ROWS;
            if (before && how == GENERAL) {
                finish_all(before, job, how, true);
                before = NULL;
            }
            next_tile(job, p, now, job->sums + (c * tiles + i) * SUMS, before, how, soon);
            before = p->ends ? now : NULL;
        }
    }
    if (before) finish_all(before, job, how, true);
}

void graft_cpu_product_tiles(const graft_cpu_product *job, int64_t first, int64_t panels)
{
    column columns[COLUMNS];
    matrix_shapes others;
    const int64_t end = (first + panels) * BLOCK;
    const int64_t each = graft_cpu_product_tiles_part(job->words, job->taps);
    matrix_begin(&others);
    for (int64_t at = first * BLOCK; at < end;) {
        part p = {.columns = columns};
        for (; p.n < COLUMNS && at < end; p.n++) at = open_column(job, at, end, &columns[p.n]);
        for (p.first = 0; p.first < job->words; p.first += each) {
            p.words = job->words - p.first < each ? job->words - p.first : each;
            p.begins = p.first == 0;
            p.ends = p.first + p.words == job->words;
            multiply(job, &p, ending_of(job));
        }
    }
    matrix_end(&others);
}
