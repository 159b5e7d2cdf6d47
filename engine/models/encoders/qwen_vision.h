/* The part of Qwen 2.5-VL that looks at pictures (Bai et al. 2025, arXiv:2502.13923; its code is
 * public under Apache-2.0), as a graph: squares of a picture as tokens, of which four at a time,
 * two rows of two, become one token of the language model (qwen3.h): a cell.
 *
 * Norms are RMS norms, the MLPs are gated, and places turn halves of a head's values against each
 * other, a half of these by the row of a square, the others by its column. Attention sees windows
 * of 4x4 cells, less at the right and at the bottom, but for one layer in eight, which sees the
 * whole picture. So tokens are in an order in which those of a window follow each other: first all
 * whole windows, then those cut at the right, at the bottom, and at both. */
#ifndef GRAFT_MODELS_QWEN_VISION_H
#define GRAFT_MODELS_QWEN_VISION_H
#include "engine/graph/graph.h"
#include "engine/models/parts/arch.h"

#define GRAFT_QWEN_VISION_WINDOW 4     /* cells a side */
#define GRAFT_QWEN_VISION_MERGED 4     /* squares of a cell */
#define GRAFT_QWEN_VISION_CELLS  16384 /* of the largest picture */
/* A square is one of two pictures of a video: twice the same. */
#define GRAFT_QWEN_VISION_FRAMES  2
#define GRAFT_QWEN_VISION_COLOURS 3

/* Zero-filled before it is set: equal shapes are equal bytes. */
typedef struct graft_qwen_vision_shape {
    int64_t rows, columns; /* of cells */
    graft_dtype act_dtype; /* GRAFT_F32 or GRAFT_BF16; the stream that layers add to is float32 */
} graft_qwen_vision_shape;

/* Inputs: squares (1,T,graft_qwen_vision_values()), cosines and sines (T,1,d/2), all float32.
 * Output: cells (1,T/4,out) float32, in the order of the tokens.
 * GRAFT_E_LIMIT over GRAFT_QWEN_VISION_CELLS. */
graft_status graft_qwen_vision_build(const graft_qwen_vision_arch *a,
                                     const graft_qwen_vision_shape *s, graft_graph **out,
                                     graft_err *e);
/* Which cell of the picture, counted row by row, is the graph's cell i: place[rows * columns]. */
void graft_qwen_vision_order(int64_t rows, int64_t columns, int32_t *place);

/* What Qwen 3-VL has in common with it. Squares have `patch` pixels a side. */
/* Pixels' values of a token. */
int64_t graft_qwen_vision_values(int32_t patch);
/* Row and column of square k of a cell, of so many columns of cells. */
void graft_qwen_vision_square(int32_t cell, int64_t columns, int k, int64_t at[2]);
/* A graph's inputs of a picture of pixels (rows * 2 patch, columns * 2 patch, 3), in an order of
 * cells; NULL: row by row. */
void graft_qwen_vision_squares(int32_t patch, int64_t rows, int64_t columns, const int32_t *place,
                               const float *pixels, float *squares);
/* Likewise of heads of so many values, of which each turns half. */
void graft_qwen_vision_angles(int32_t head, int64_t rows, int64_t columns, const int32_t *place,
                              float *cosines, float *sines);
#endif
