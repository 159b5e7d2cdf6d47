#include "kernels/cuda/ops/op.h"

void graft_cuda_shape(const graft_tensor_desc *t, uint32_t *dim, int64_t *stride)
{
    int missing = GRAFT_MAX_RANK - t->rank;
    for (int i = 0; i < GRAFT_MAX_RANK; i++) {
        bool there = i >= missing;
        if (dim) dim[i] = there ? (uint32_t)t->dim[i - missing] : 1;
        if (stride) stride[i] = there ? t->stride[i - missing] : 0;
    }
}

int64_t graft_cuda_row_stride(const graft_tensor_desc *t)
{
    int64_t stride = -1, n = 0; /* n: rows below the dimension looked at, times stride */
    for (int i = t->rank - 2; i >= 0; i--) {
        if (t->dim[i] == 1) continue;
        if (stride >= 0 && t->stride[i] != n) return -1;
        if (stride < 0) stride = t->stride[i];
        n = t->stride[i] * t->dim[i];
    }
    return stride < 0 ? t->dim[t->rank - 1] : stride;
}

void graft_cuda_broadcast(const graft_tensor_desc *b, const graft_tensor_desc *out, int64_t *stride)
{
    int missing = GRAFT_MAX_RANK - b->rank, first = GRAFT_MAX_RANK - out->rank;
    for (int i = 0; i < GRAFT_MAX_RANK; i++) {
        bool repeated = i < missing || i < first || b->dim[i - missing] == 1;
        stride[i] = repeated ? 0 : b->stride[i - missing];
    }
}

/* The dtype and what else differs: equal numbers, equal bytes. */
void graft_cuda_pack_as(graft_kernel *k, int i, graft_cuda_layout layout)
{
    k->layout[i] = layout;
    k->info.packed_bytes[i] = (uint64_t)layout.rows * layout.ldw * graft_dtype_size(layout.to);
    k->info.packing[i] = (uint64_t)layout.to | (uint64_t)layout.pairs << 8 |
                         (uint64_t)layout.int4 << 9 | (uint64_t)layout.weight << 10 |
                         (uint64_t)layout.corners << 12; /* 11: see conv2d.c */
}

void graft_cuda_pack_plain(graft_kernel *k, int i, graft_dtype to)
{
    const graft_tensor_desc *t = &k->op.in[i];
    if (!graft_cuda_present(t) || !t->constant) return;
    uint32_t n = (uint32_t)graft_ref_elements(t);
    graft_cuda_pack_as(
        k, i, (graft_cuda_layout){.rows = 1, .channels = n, .taps = 1, .ldw = n, .to = to});
}
