/* The part of Qwen 3-VL that looks at pictures (arXiv:2511.21631; its code is public under
 * Apache-2.0), as a graph. As with Qwen 2.5-VL's (qwen_vision.h) squares of a picture are tokens,
 * of which four at a time, two rows of two, become one token of the language model (qwen3.h): a
 * cell.
 *
 * Norms are layer norms, the MLPs have two layers, and attention sees the whole picture. Places
 * come in twice: learned ones, of a table that is a square of rows and columns, which is stretched
 * over the picture and read between its entries, are added to the squares; and row and column turn
 * halves of a head's values against each other, as with Qwen 2.5-VL's. What the stream is behind
 * some of the layers becomes cells, too, each time by layers of its own: the language model adds
 * them to its own stream behind its first layers (DeepStack, arXiv:2406.04334). Token order is that
 * of the picture: cells row by row, and of each its four squares. */
#ifndef GRAFT_MODELS_QWEN3_VISION_H
#define GRAFT_MODELS_QWEN3_VISION_H
#include "engine/graph/graph.h"
#include "engine/models/parts/arch.h"

/* Zero-filled before it is set: equal shapes are equal bytes. */
typedef struct graft_qwen3_vision_shape {
    int64_t rows, columns; /* of cells */
    graft_dtype act_dtype; /* GRAFT_F32 or GRAFT_BF16; the stream that layers add to is float32 */
} graft_qwen3_vision_shape;

/* Inputs: squares (1,T,values) as of graft_qwen_vision_squares(), places (1,T,width), cosines and
 * sines (T,1,d/2), all float32. Outputs: cells (1,T/4,out), and as many again for each of the
 * arch's `deep`, float32. GRAFT_E_LIMIT over GRAFT_QWEN_VISION_CELLS. */
graft_status graft_qwen3_vision_build(const graft_qwen3_vision_arch *a,
                                      const graft_qwen3_vision_shape *s, graft_graph **out,
                                      graft_err *e);
/* Name of the places' table (side * side,width), which the caller reads. Static. */
const char *graft_qwen3_vision_table(void);
/* Places (T,width) of a picture of so many cells, of that table: bilinear, the table's corners on
 * the picture's. */
void graft_qwen3_vision_places(const graft_qwen3_vision_arch *a, int64_t rows, int64_t columns,
                               const float *table, float *places);
#endif
