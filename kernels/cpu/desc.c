#include "kernels/cpu/desc.h"

int graft_cpu_present(const graft_tensor_desc *t)
{
    return t->dtype != GRAFT_DTYPE_NONE;
}

int graft_cpu_is_float(graft_dtype t)
{
    return t == GRAFT_F32 || t == GRAFT_F16 || t == GRAFT_BF16 || t == GRAFT_F64 ||
           t == GRAFT_F8_E4M3 || t == GRAFT_F8_E5M2;
}

int64_t graft_cpu_elements(const graft_tensor_desc *t)
{
    int64_t n = 1;
    for (int i = 0; i < t->rank; i++) n *= t->dim[i];
    return n;
}

int graft_cpu_is_dense(const graft_tensor_desc *t)
{
    int64_t n = 1;
    for (int i = t->rank - 1; i >= 0; i--) {
        if (t->dim[i] != 1 && t->stride[i] != n) return 0;
        n *= t->dim[i];
    }
    return 1;
}

int64_t graft_cpu_rows(const graft_tensor_desc *t)
{
    int64_t n = 1;
    for (int i = 0; i < t->rank - 1; i++) n *= t->dim[i];
    return n;
}

int64_t graft_cpu_row_offset(const graft_tensor_desc *t, int64_t i)
{
    int64_t at = 0;
    for (int k = t->rank - 2; k >= 0; k--) {
        at += i % t->dim[k] * t->stride[k];
        i /= t->dim[k];
    }
    return at;
}

void graft_cpu_make_dense(graft_tensor_desc *t, graft_dtype dtype)
{
    int64_t n = 1;
    t->dtype = dtype;
    for (int i = t->rank - 1; i >= 0; i--) {
        t->stride[i] = n;
        n *= t->dim[i];
    }
}
