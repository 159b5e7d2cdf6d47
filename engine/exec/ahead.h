/* Threads that read weights ahead of the one that packs them for a device: what they contain is
 * hashed, and what does not lie ready in its file is joined or computed. In the packer's order, and
 * never much further than it has come, so that what was read is still in the system's cache when it
 * is copied. Pages of the file behind the packer are given back. */
#ifndef GRAFT_EXEC_AHEAD_H
#define GRAFT_EXEC_AHEAD_H
#include "engine/weights/slot_data.h"

typedef struct graft_ahead_item {
    const graft_gslot *slot; /* NULL: nothing is done */
    uint64_t bytes;          /* about how many there are */
    bool load;               /* fills `data`, too */
    graft_dtype wanted;      /* then as graft_slot_data_wanted() */
    /* For the packer, after graft_ahead_reach(); nothing where reading failed, for which it will
     * find the reason itself. It may take this over. */
    graft_slot_data data;
} graft_ahead_item;

typedef struct graft_ahead graft_ahead;
/* The caller's items, which stay in place until the end, and whose data goes with it. NULL where it
 * is not worth a thread, or there is none: everything else here takes that, too. `threads`: that
 * the packer's process may use, its own among them. */
graft_ahead *graft_ahead_begin(const graft_weights *w, graft_ahead_item *item, size_t n,
                               int threads);
/* The packer comes to item i, and is done with those before it. Returns when nobody reads it. */
void graft_ahead_reach(graft_ahead *a, size_t i);
void graft_ahead_end(graft_ahead *a);
#endif
