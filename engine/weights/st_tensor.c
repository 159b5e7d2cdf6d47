#include "engine/weights/st_tensor.h"

#include <math.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/half.h"
#include "engine/weights/values.h"

bool graft_st_is_weight(const graft_st_tensor *t)
{
    return graft_st_packed(t) || graft_is_weight_type(t->dtype);
}

void graft_st_to_f32(const graft_st_tensor *t, int64_t first, int64_t n, float *dst)
{
    if (t->blocks)
        graft_ggml_blocks_to_f32(t->blocks, t->data, first, n, dst);
    else if (t->coded)
        graft_coded_to_f32(t->coded, t->data, first, n, dst);
    else
        graft_to_f32(t->dtype,
                     (const uint8_t *)t->data + (size_t)first * graft_dtype_size(t->dtype), dst,
                     (size_t)n);
}

graft_status graft_st_as_f16(const graft_st_tensor *t, uint16_t **out, graft_err *e)
{
    enum { PIECE = 1024 };
    const int64_t all = graft_st_values(t);
    float piece[PIECE], most = 0;
    *out = graft_malloc_array((size_t)all, sizeof **out);
    if (!*out) return graft_fail_nomem(e, "a tensor in float16");
    for (int64_t at = 0, n; at < all; at += n) {
        n = all - at < PIECE ? all - at : PIECE;
        graft_st_to_f32(t, at, n, piece);
        graft_f32_to_f16_array(piece, *out + at, (size_t)n);
        for (int64_t k = 0; k < n; k++) most = fmaxf(most, fabsf(piece[k]));
    }
    if (most < 65520.0f) return GRAFT_OK; /* what is nearer to 65504 than to the next one */
    graft_free(*out);
    *out = NULL;
    return graft_fail(e, GRAFT_E_UNSUPPORTED, "tensor \"%.200s\" has values beyond float16's",
                      graft_st_called(t));
}

/* By place; among tensors at one place those without bytes come first, then the header's order
 * decides, which is the order of the names in the pool. */
static int by_data(const void *pa, const void *pb)
{
    const graft_st_tensor *a = pa, *b = pb;
    if (a->data != b->data) return (uintptr_t)a->data < (uintptr_t)b->data ? -1 : 1;
    if (a->bytes != b->bytes) return a->bytes < b->bytes ? -1 : 1;
    return (uintptr_t)a->name < (uintptr_t)b->name ? -1 : a->name != b->name;
}

void graft_st_sort(graft_st_tensor *tensor, size_t n)
{
    bool sorted = true;
    for (size_t i = 1; i < n && sorted; i++) sorted = by_data(&tensor[i - 1], &tensor[i]) < 0;
    if (!sorted) qsort(tensor, n, sizeof *tensor, by_data);
}
