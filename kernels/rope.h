/* ROPE's attributes (ops.def) as tokens of an entry and values of a head. Pure, any thread. */
#ifndef GRAFT_KERNELS_ROPE_H
#define GRAFT_KERNELS_ROPE_H
#include <float.h>
#include <stdbool.h>

#include "kernels/op_desc.h"

#define GRAFT_ROPE_BASE 10000.0

typedef struct graft_rope {
    int64_t before, cells; /* tokens ahead of the grid, and of it */
    /* Of a head, in this order: values that stay, those that turn with the grid's own place, the
     * row and the column, and values that stay again; each is even. */
    int64_t still, of_frame, of_row, of_column, last;
    bool mixed;       /* the values that turn go round: graft_rope_axis() */
    int64_t row_step; /* from a row's place to the next one's: 1 or -1 */
    double base;      /* of the angles */
} graft_rope;

/* The attributes by names of their own. */
typedef struct graft_rope_grid {
    int32_t heads, rows, columns; /* of the grid */
    int32_t behind;               /* tokens behind it, which stay */
    int32_t top, left, frame;     /* where it stands */
    int32_t of_row, of_column;    /* values of a head that these turn */
    int32_t last;                 /* values behind these, which stay */
    bool down;                    /* each row stands one before the one above it */
    bool mixed;                   /* pairs of the three go round, by angles of the whole head */
    float base;                   /* of the angles; 0: GRAFT_ROPE_BASE */
} graft_rope_grid;

static inline graft_attrs graft_rope_attrs(const graft_rope_grid *g)
{
    return (graft_attrs){.heads = g->heads,
                         .up_h = g->rows,
                         .up_w = g->columns,
                         .pad_bottom = g->behind,
                         .pad_top = g->top,
                         .pad_left = g->left,
                         .pad_right = g->last,
                         .groups = g->frame,
                         .stride_h = g->mixed,
                         .stride_w = g->down,
                         .kernel_h = g->of_row,
                         .kernel_w = g->of_column,
                         .scale = g->base};
}

/* False where the numbers do not go together, or with tokens of so many channels. */
static inline bool graft_rope_of(const graft_attrs *a, int64_t tokens, int64_t channels,
                                 graft_rope *out)
{
    if (a->heads < 1 || channels % (2 * (int64_t)a->heads)) return false;
    const int64_t head = channels / a->heads;
    if (head > GRAFT_ROPE_HEAD_MAX || a->kernel_h < 0 || a->kernel_w < 0 || a->pad_right < 0 ||
        a->kernel_h % 2 || a->kernel_w % 2 || a->pad_right % 2 ||
        (int64_t)a->kernel_h + a->kernel_w + a->pad_right > head)
        return false;
    if (a->up_h < 1 || a->up_w < 1 || a->pad_bottom < 0 || a->pad_bottom > tokens ||
        (tokens - a->pad_bottom) / a->up_h < a->up_w)
        return false;
    if (a->pad_top < 0 || a->pad_left < 0 || a->groups < 0) return false;
    if (a->stride_h < 0 || a->stride_h > 1 || a->stride_w < 0 || a->stride_w > 1) return false;
    if (a->stride_w && a->pad_top < a->up_h - 1) return false;
    if (a->stride_h &&
        (a->pad_right || 3 * (int64_t)a->kernel_h > head + 2 || 3 * (int64_t)a->kernel_w > head))
        return false;
    if (a->scale != 0 && !(a->scale >= 1 && a->scale <= FLT_MAX)) return false;
    out->base = a->scale != 0 ? (double)a->scale : GRAFT_ROPE_BASE;
    out->cells = (int64_t)a->up_h * a->up_w;
    out->before = tokens - a->pad_bottom - out->cells;
    out->of_row = a->kernel_h;
    out->of_column = a->kernel_w;
    out->last = a->pad_right;
    const int64_t first = head - out->of_row - out->of_column - out->last;
    out->mixed = a->stride_h != 0;
    out->row_step = a->stride_w ? -1 : 1;
    out->of_frame = a->groups || out->mixed ? first : 0;
    out->still = first - out->of_frame;
    return true;
}

/* Of a mixed head: what this pair turns by, 0: the grid's place, 1: the row, 2: the column. */
static inline int graft_rope_axis(const graft_rope *r, int64_t pair)
{
    const int64_t round = pair / 3;
    if (pair % 3 == 1 && round < r->of_row / 2) return 1;
    return pair % 3 == 2 && round < r->of_column / 2 ? 2 : 0;
}
#endif
