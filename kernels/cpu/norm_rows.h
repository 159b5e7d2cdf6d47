/* What LAYER_NORM, RMS_NORM and ROPE share: rows of x by all threads, who takes what is left. */
#ifndef GRAFT_KERNELS_CPU_NORM_ROWS_H
#define GRAFT_KERNELS_CPU_NORM_ROWS_H
#include "kernels/cpu/cpu.h"

/* Norms row number `row`: from x to y, which are of the descriptor's dtypes. */
typedef void graft_cpu_norm_row_fn(const graft_kernel *k, const void *const *in, int64_t row,
                                   const void *x, void *y);
/* The launch() of an operator whose init() called graft_cpu_norm_rows_init(). */
graft_status graft_cpu_norm_rows(graft_kernel *k, const void *const *in, void *out, void *workspace,
                                 graft_cpu_norm_row_fn *norm);
void graft_cpu_norm_rows_init(graft_kernel *k);
/* Its inplace(). */
int32_t graft_cpu_norm_rows_inplace(const graft_kernel *k, int32_t input);
#endif
