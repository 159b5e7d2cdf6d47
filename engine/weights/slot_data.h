/* The values of a graph's slot, from the tensors of a weight set: mapped where they lie ready, else
 * joined, transposed, patched in memory; as a whole, or in rows. Any thread, but each reader one.
 */
#ifndef GRAFT_WEIGHTS_SLOT_DATA_H
#define GRAFT_WEIGHTS_SLOT_DATA_H
#include "engine/weights/weights.h"

typedef struct graft_slot_data {
    graft_dtype dtype;
    const void *data; /* dense, in the slot's shape, aligned to its element; quantized: a block as
                         kernels/quant.h has it, at any alignment */
    void *owned;      /* freed by graft_slot_data_finish(); NULL when `data` is mapped */
} graft_slot_data;
/* Fails as graft_weights_check does, and for want of memory; *out is nothing then. */
graft_status graft_slot_data_load(const graft_weights *w, const graft_gslot *slot,
                                  graft_slot_data *out, graft_err *e);
/* The slot's blocks (packed.h), unchanged: one piece, of dtype GRAFT_BLOCKS and their type.
 * out->data NULL: not all of its sources are tensors of this type. */
graft_status graft_slot_data_blocks(const graft_weights *w, const graft_gslot *slot,
                                    graft_dtype dtype, graft_slot_data *out, graft_err *e);
/* For an operator whose weights are of this dtype: blocks, where they can be had so, else and for
 * GRAFT_DTYPE_NONE what graft_slot_data_load() gives. */
graft_status graft_slot_data_wanted(const graft_weights *w, const graft_gslot *slot,
                                    graft_dtype dtype, graft_slot_data *out, graft_err *e);
/* Turns quantized values into float32; others stay. */
graft_status graft_slot_data_float(graft_slot_data *d, const graft_gslot *s, graft_err *e);
void graft_slot_data_finish(graft_slot_data *d);

/* A slot's rows piece by piece, which then lie in the cache. Stored tensors are hashed on the way:
 * when all rows were read the hash is known. Those of sums are summed up. *out NULL: the slot's
 * values do not lie in files as they are, or a tensor's rows are no multiple of `step`;
 * graft_slot_data_load() has them. */
typedef struct graft_slot_reader graft_slot_reader;
graft_status graft_slot_reader_create(const graft_weights *w, const graft_gslot *slot, int64_t step,
                                      graft_slot_reader **out, graft_err *e);
/* The number of the next rows, a multiple of `step` but for the last; 0 at the end. */
int64_t graft_slot_reader_next(graft_slot_reader *r, int64_t step, graft_dtype *dtype,
                               const void **data);
void graft_slot_reader_destroy(graft_slot_reader *r);
#endif
