/* What a tensor's description says of its elements and rows. Any thread. */
#ifndef GRAFT_KERNELS_CPU_DESC_H
#define GRAFT_KERNELS_CPU_DESC_H
#include <stdint.h>

#include "kernels/op_desc.h"

int graft_cpu_present(const graft_tensor_desc *t);
int graft_cpu_is_dense(const graft_tensor_desc *t);
int graft_cpu_is_float(graft_dtype t);
int64_t graft_cpu_elements(const graft_tensor_desc *t);
/* Rows of the last dimension. */
int64_t graft_cpu_rows(const graft_tensor_desc *t);
/* Element offset of row i of the last dimension. */
int64_t graft_cpu_row_offset(const graft_tensor_desc *t, int64_t i);
/* Makes the descriptor one of a dense tensor. */
void graft_cpu_make_dense(graft_tensor_desc *t, graft_dtype dtype);
#endif
