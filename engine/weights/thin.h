/* Matrices as products of two thin ones: what a LoRA of a difference of weights is made of. */
#ifndef GRAFT_WEIGHTS_THIN_H
#define GRAFT_WEIGHTS_THIN_H
#include <stdint.h>

#include "engine/engine.h"

/* a, m x n, is about up, m x rank, times down, rank x n: its `rank` largest singular values, up to
 * m and n. down has the right singular vectors as its rows, up the left ones times the values;
 * where the matrix has fewer, zeros. By iteration of a random subspace (Halko, Martinsson and Tropp
 * 2011, arXiv:0909.4061, algorithms 4.4 and 5.1), which needs products with a alone; the same for
 * the same matrix. All are finite and lie row by row. The time of a large rank is at least its
 * cube's, seconds at 320 and minutes beyond 640: the task, which may be NULL, is asked again and
 * again whether it was cancelled. Any thread, the task's. */
graft_status graft_thin_factors(const float *a, int64_t m, int64_t n, int64_t rank, float *up,
                                float *down, const graft_task *task, graft_err *e);
#endif
