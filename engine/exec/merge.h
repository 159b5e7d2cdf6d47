/* LoRAs on devices with memory of their own: the device adds the low-rank products. Where it has
 * room the weights that they change are kept there as their file has them, and a change of strength
 * brings the small factors to the device and nothing else; else those weights pass through. */
#ifndef GRAFT_EXEC_MERGE_H
#define GRAFT_EXEC_MERGE_H
#include "engine/exec/exe.h"
#include "engine/exec/packs.h"
#include "engine/weights/weights.h"

/* Whether the backend may merge use i for this set: LoRAs change it, all of them by products of two
 * matrices, and its sources are floats that a file stores. Other forms of LoRA, and what is a sum
 * of several files, are computed by the host. */
bool graft_merge_possible(const graft_exe *x, size_t i, const graft_weights *w);
/* Bytes that the stored sources of use i, which can be merged, add to the store: appended to
 * `bytes`, at most one a source; returns how many there are. */
graft_status graft_merge_sizes(const graft_exe *x, size_t i, const graft_weights *w,
                               graft_packs *packs, uint64_t *bytes, size_t *n, graft_err *e);
/* Where stored sources lie while they are merged. */
typedef struct graft_merge_room {
    graft_packs *packs; /* the store that keeps them; NULL: nothing does */
    graft_slab *slab;   /* for them in that store; may be NULL */
    void *passing;      /* without a store: memory of the device that is used anew each time, */
    uint64_t bytes;     /* so much of it */
} graft_merge_room;
/* Packs use i, merged, into dst. *done false: the host must do it. */
graft_status graft_merge_fill(const graft_exe *x, size_t i, const graft_weights *w,
                              const graft_merge_room *room, void *dst, bool *done, graft_err *e);
/* Drops the stored sources of use i of `old`, unless `keep` (may be NULL) has the same. */
void graft_merge_drop(const graft_exe *x, size_t i, const graft_weights *old,
                      const graft_weights *keep, graft_packs *packs);
#endif
