/* Applying a patch (a LoRA of any form) to one tensor. Any thread. */
#ifndef GRAFT_WEIGHTS_PATCH_H
#define GRAFT_WEIGHTS_PATCH_H
#include "engine/weights/factors.h"

/* What a file says of one layer. */
typedef struct graft_patch_source {
    graft_patch_form form;
    graft_factors part[2];
    const graft_st_tensor *magnitude; /* NULL: none */
    float alpha;                      /* NAN: none, the scale is 1, as it is without a rank */
} graft_patch_source;

/* Reads the factors to name their content in p->hash; p->strength is 0. rows 0: the whole tensor.
 */
graft_patch graft_patch_make(const graft_patch_source *s, int64_t row, int64_t rows);
/* Only the rows from from_row on of the `from_rows` that the delta has. */
void graft_patch_take_rows(graft_patch *p, int64_t from_row, int64_t from_rows);
/* What it does to the rows from `first` up to `end` of a target of `all` rows; false: nothing. */
bool graft_patch_cut(graft_patch *p, int64_t first, int64_t end, int64_t all);
/* Whether the factors fit the target. GRAFT_E_FORMAT with the shapes when not. */
graft_status graft_patch_check(const graft_patch *p, const graft_st_tensor *target, graft_err *e);
/* Whether it is one product of two matrices, which graft_patch_product_init() gives. */
bool graft_patch_is_product(const graft_patch *p);
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
/* Adds it to dst, which holds tensor `target` densely in float32. base: its values without patches,
 * likewise; read only where the patch has a magnitude. Fails as graft_patch_check does. */
graft_status graft_patch_apply(const graft_patch *p, const graft_st_tensor *target,
                               const float *base, float *dst, graft_err *e);
#endif
