/* Applying a low-rank patch (LoRA, Hu et al. 2021, arXiv:2106.09685) to one tensor. Any thread. */
#ifndef GRAFT_WEIGHTS_PATCH_H
#define GRAFT_WEIGHTS_PATCH_H
#include "engine/weights/weights.h"

/* Reads the factors to name their content in p->hash; p->strength is 0. `alpha` NAN: none, the
 * scale is 1. rows 0: the whole tensor. */
graft_patch graft_patch_make(const graft_st_tensor *up, const graft_st_tensor *down,
                             const graft_st_tensor *mid, float alpha, int64_t row, int64_t rows);
/* Only the rows from up_row on of the `up_rows` that `up` has. */
void graft_patch_take_rows(graft_patch *p, int64_t up_row, int64_t up_rows);
/* Whether the factors fit the target. GRAFT_E_FORMAT with both shapes when not. */
graft_status graft_patch_check(const graft_patch *p, const graft_st_tensor *target, graft_err *e);
/* The patch as one product: strength * scale * up (rows,rank) x down (rank,columns), added from row
 * p->row on. Both point into the file, but `owned`, which graft_patch_product_finish() frees: the
 * second of LoCon's three parts times the third. Fails as graft_patch_check does. */
typedef struct graft_patch_product {
    const void *up, *down;
    graft_dtype up_dtype, down_dtype;
    int64_t rows, rank, columns;
    float *owned;
} graft_patch_product;
graft_status graft_patch_product_init(const graft_patch *p, const graft_st_tensor *target,
                                      graft_patch_product *out, graft_err *e);
void graft_patch_product_finish(graft_patch_product *x);
/* dst += strength * scale * delta, where dst holds tensor `target` densely in float32 and delta is
 * up (O,r,…) times down (r,I,kh,kw), or up (O,r) x mid (r,r,kh,kw) x down (r,I) for LoCon's three
 * parts. Fails as graft_patch_check does. */
graft_status graft_patch_apply(const graft_patch *p, const graft_st_tensor *target, float *dst,
                               graft_err *e);
#endif
