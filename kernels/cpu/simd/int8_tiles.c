/* int8 LINEAR with AMX's matrix instructions: 32 rows by a panel of 32 outputs, four registers of
 * sums, 64 inputs a step. Packed weights lie as the instructions read them: a row of a register is
 * four inputs of sixteen outputs. What becomes of a tile's sums is computed while the products of
 * the next tile are under way. */
#include <float.h>

#include "kernels/cpu/simd/matrix.h"
#include "kernels/cpu/simd/tile.h"

#define ROWS GRAFT_CPU_INT8_TILE_ROWS
#include "kernels/cpu/simd/int8_finish.h"

#define STEP 64 /* inputs */
#define HALF 16 /* rows of a register, and outputs */

/* Sums: of the upper rows 0 and 1, of the lower ones 2 and 3. Levels: 4 and 5. Weights: 6 and 7. */
INLINE void begin_sums(const int32_t *start, bool both)
{
    _tile_loadd(0, start, 0);
    _tile_loadd(1, start + HALF, 0);
    if (!both) return;
    _tile_loadd(2, start, 0);
    _tile_loadd(3, start + HALF, 0);
}

INLINE void step(const uint8_t *x, int64_t stride, const int8_t *w, bool both)
{
    _tile_loadd(4, x, stride);
    _tile_loadd(6, w, 4 * PV * VL);
    _tile_dpbusd(0, 4, 6);
    _tile_loadd(7, w + 4 * VL, 4 * PV * VL);
    _tile_dpbusd(1, 4, 7);
    if (!both) return;
    _tile_loadd(5, x + HALF * stride, stride);
    _tile_dpbusd(2, 5, 6);
    _tile_dpbusd(3, 5, 7);
}

INLINE void keep_sums(int32_t *sum, bool both)
{
    _tile_stored(0, sum, 4 * PV * VL);
    _tile_stored(1, sum + HALF, 4 * PV * VL);
    if (!both) return;
    _tile_stored(2, sum + HALF * PV * VL, 4 * PV * VL);
    _tile_stored(3, sum + HALF * PV * VL + HALF, 4 * PV * VL);
}

/* Sums of a tile to `now`; meanwhile `before`, if any, is finished. */
INLINE void tile(const graft_cpu_int8 *job, const int8_t *w, const int32_t *start, waiting *now,
                 const waiting *before, ending how, stream soon[2])
{
    const uint8_t *x = job->level + now->row * job->stride;
    const int64_t steps = job->quads / (STEP / 4);
    const bool both = now->rows > HALF;
    int64_t r = 0;
    begin_sums(start, both);
#pragma GCC unroll 1
    for (int64_t i = 0; i < steps; i++) {
        step(x + i * STEP, job->stride, w + i * (STEP / 4) * 4 * PV * VL, both);
        fetch(&soon[0]);
        fetch(&soon[1]);
        for (; r < ROWS * (i + 1) / steps; r++) {
            fetch_row(now, job, r);
            if (before) finish(before, job, r, how);
        }
    }
    keep_sums(now->sum, both);
}

/* By rows of the panel, each with what the one before it left. */
INLINE const waiting *panel_of(const graft_cpu_int8 *job, const int8_t *w, const int32_t *start,
                               const panel *own, waiting t[2], const waiting *before, ending how,
                               stream soon[2])
{
    for (int64_t row = 0; row < job->rows; row += ROWS) {
        waiting *now = before == &t[0] ? &t[1] : &t[0];
        now->panel = own;
        now->row = row;
        now->rows = job->rows - row < ROWS ? job->rows - row : ROWS;
        tile(job, w, start, now, before, how, soon);
        before = now;
    }
    return before;
}

void graft_cpu_int8_tiles(const graft_cpu_int8 *job, int64_t first, int64_t panels)
{
    panel both[2];
    waiting t[2];
    matrix_shapes others;
    const waiting *before = NULL;
    const ending how = ending_of(job);
    const int64_t steps = job->quads / (STEP / 4) * ((job->rows + ROWS - 1) / ROWS);
    const int64_t size = PV * VL * 4 * job->quads;
    stream soon[2] = {stream_of(job->ahead, job->ahead_bytes, steps * panels)};
    matrix_begin(&others);
    for (int64_t p = first; p < first + panels; p++) {
        const int8_t *w = job->weight + p * size;
        const int32_t *start = job->start + p * PV * VL;
        panel *own = &both[p & 1];
        open_panel(own, job, p);
        soon[1] =
            stream_of(p + 1 < first + panels ? w + size : job->weight + first * size, size, steps);
        if (how == PLAIN)
            before = panel_of(job, w, start, own, t, before, PLAIN, soon);
        else if (how == GEGLU_BF16)
            before = panel_of(job, w, start, own, t, before, GEGLU_BF16, soon);
        else if (how == TANH_BF16)
            before = panel_of(job, w, start, own, t, before, TANH_BF16, soon);
        else
            before = panel_of(job, w, start, own, t, before, GENERAL, soon);
    }
    matrix_end(&others);
    if (before) finish_all(before, job, how);
}
